use futures_util::FutureExt;

use super::*;

fn call(number: usize) -> Note {
    Note::Call(RequestId::parse(&format!("r{number}")).unwrap())
}

#[test]
fn a_note_is_read_as_it_was_written() {
    let notes = [
        call(1),
        Note::Client(ClientId::parse("desk").unwrap()),
        Note::Session(SessionId::parse("").unwrap()),
        Note::Session(SessionId::parse("chat 7/é call").unwrap()),
        Note::Mail,
        Note::Nodes,
    ];
    for note in notes {
        assert_eq!(note.to_string().parse(), Ok(note));
    }
    for text in ["", "call", "call ", "mail x", "news", "client a b"] {
        assert_eq!(text.parse::<Note>(), Err(NoNote), "{text}");
    }
}

#[tokio::test]
async fn too_many_notes_are_dropped_and_the_node_knows() {
    let inbox = Inbox::default();
    (0..4_096).for_each(|number| inbox.put(call(number)));
    // One that waits already takes no room.
    (0..4_096).for_each(|number| inbox.put(call(number)));
    assert_eq!(inbox.take().await, Heard::Note(call(0)));
    (0..2).for_each(|number| inbox.put(call(5_000 + number)));
    assert_eq!(inbox.take().await, Heard::Missed);
    assert_eq!(inbox.take().now_or_never(), None);
    inbox.put(call(1));
    assert_eq!(inbox.take().await, Heard::Note(call(1)));
}
