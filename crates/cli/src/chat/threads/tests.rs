use super::*;

#[test]
fn each_part_of_an_answer_begins_on_a_line_of_its_own() {
    let mut thread = Thread::default();
    let text = |part: &str, text: &str| Piece::Text { part: part.to_owned(), text: text.to_owned() };
    let thought = Piece::Thought { part: "b".to_owned(), text: "Hm".to_owned() };
    thread.keep_answer(&[text("a", "It "), thought, text("a", "is."), text("b", "Yes.")]);
    thread.keep_answer(&[text("b", " Sunday.\n"), text("b again", "No.")]);
    assert_eq!(thread.answer, "It is.\nYes. Sunday.\nNo.");
}
