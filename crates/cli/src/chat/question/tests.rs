use super::*;

const ALL: Choices = Choices { always: true, edit: true };

fn question(input: &str) -> Question {
    Question::about_call("per_1", 1, ["client_a_read", "read", input], ALL)
}

/// What the lines come to: what is sent, or all that was said instead.
fn typed(question: &mut Question, lines: &[Option<&str>]) -> String {
    let mut said = String::new();
    for line in lines {
        match question.read(*line) {
            Ok(Answer::Call(answer)) => return serde_json::to_string(&answer).unwrap(),
            Ok(Answer::Value(value)) => return value.map_or("refused".to_owned(), |value| value.to_string()),
            Err(remark) => said.push_str(&format!("{remark}{}|", question.text())),
        }
    }
    said
}

const ASK: &str = r#"Allow read {"path":"a"}? [y]es, [a]lways, [n]o, [e]dit: "#;

#[test]
fn a_letter_or_a_word_answers() {
    for (line, expected) in [
        (Some("y"), r#"{"response":"once"}"#),
        (Some(" YES "), r#"{"response":"once"}"#),
        (Some("a"), r#"{"response":"always"}"#),
        (Some("no"), r#"{"response":"reject"}"#),
        (None, r#"{"response":"reject"}"#),
    ] {
        assert_eq!(typed(&mut question(r#"{"path":"a"}"#), &[line]), expected, "{line:?}");
    }
    let again = typed(&mut question(r#"{"path":"a"}"#), &[Some(""), Some("yep")]);
    assert_eq!(again, format!("{ASK}|{ASK}|"));
    let bare = Choices { always: false, edit: false };
    let again = typed(&mut Question::about_call("per_1", 1, ["read", "read", "{}"], bare), &[Some("a"), Some("e")]);
    assert_eq!(again, "Allow read {}? [y]es, [n]o: |Allow read {}? [y]es, [n]o: |");
}

#[test]
fn an_input_can_be_put_in_place_of_the_models() {
    let edited = typed(&mut question(r#"{"path":"a"}"#), &[Some("e"), Some(" {\"path\":\"b\"} ")]);
    assert_eq!(edited, r#"{"response":"once","input":{"path":"b"}}"#);
    let prompt = "New input (a JSON object; empty to go back): |";
    let lines = [Some("e"), Some("[]"), Some("{"), Some("")];
    assert_eq!(
        typed(&mut question(r#"{"path":"a"}"#), &lines),
        format!(
            "{prompt}That is not a JSON object.\n{prompt}\
             That is not JSON: EOF while parsing an object at line 1 column 1\n{prompt}{ASK}|"
        )
    );
}

#[test]
fn an_input_that_is_cut_can_be_shown_whole() {
    let input = format!(r#"{{"text":"{}"}}"#, "x".repeat(3_000));
    let mut question = question(&input);
    assert!(question.text().ends_with("x…? [y]es, [a]lways, [n]o, [e]dit, [s]how all: "), "{}", question.text());
    assert!(typed(&mut question, &[Some("s")]).starts_with(&format!("{input}\nAllow read ")));
}

#[test]
fn nothing_in_a_question_moves_the_cursor() {
    let text = question("{\"a\":\"\u{9b}2J\u{202e}\",\n\"b\":1}").text();
    assert_eq!(text, "Allow read {\"a\":\"\u{fffd}2J\u{fffd}\", \"b\":1}? [y]es, [a]lways, [n]o, [e]dit: ");
}
#[test]
fn anything_else_is_answered_in_words_or_in_json() {
    let question = |about| Question { id: "i".to_owned(), thread: 1, subject: "Which\nday?".to_owned(), about };
    let mut words = question(About::Text);
    assert_eq!(words.text(), "Which day? (text; empty to refuse): ");
    assert_eq!(typed(&mut words, &[Some(" Sunday ")]), "\"Sunday\"");
    assert_eq!(typed(&mut words, &[Some("")]), "refused");
    assert_eq!(typed(&mut words, &[None]), "refused");
    let mut json = question(About::Json);
    let prompt = "Which day? (JSON; empty to refuse): ";
    assert_eq!(json.text(), prompt);
    let remark = "That is not JSON: expected value at line 1 column 1\n";
    assert_eq!(typed(&mut json, &[Some("Sunday")]), format!("{remark}{prompt}|"));
    assert_eq!(typed(&mut json, &[Some("{\"day\":7}")]), "{\"day\":7}");
}
