//! A question to the user: may this call be made?

use handback_wire::session::{PermissionResponse, Reply};
use serde_json::value::RawValue;

use super::layout::excerpt;

/// So much of an input is shown; more only when asked for, so that nobody allows what they have not seen unknowingly.
const INPUT_CHARACTERS: usize = 2_000;

/// An ask that is put to the user, as far as it has come.
#[derive(Debug)]
pub(super) struct Question {
    /// The ask's own id.
    pub(super) id: String,
    /// The tool that is called.
    pub(super) tool: String,
    /// The tool's name, as it is shown.
    name: String,
    input: String,
    choices: Choices,
    awaits: Awaits,
}

/// What may be answered besides yes and no.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Choices {
    /// Yes to all calls of the tool that follow.
    pub(super) always: bool,
    /// Yes, but with another input.
    pub(super) edit: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaits {
    /// A letter that says what to do.
    Choice,
    /// The input to use in place of the model's.
    Input,
}

/// What a line that was typed means.
#[derive(Debug)]
pub(super) enum Reading {
    /// The question is answered.
    Answer(PermissionResponse),
    /// It is put once more, after a remark.
    Again(String),
}

impl Question {
    /// Asks about a call: the ask's id, the tool and the name that it is shown with, and the input.
    pub(super) fn new(id: &str, tool: &str, name: &str, input: &str, choices: Choices) -> Self {
        let [id, tool, name, input] = [id, tool, name, input].map(str::to_owned);
        Self { id, tool, name, input, choices, awaits: Awaits::Choice }
    }

    /// What to ask.
    pub(super) fn text(&self) -> String {
        if self.awaits == Awaits::Input {
            return "New input (a JSON object; nothing to go back): ".to_owned();
        }
        let [name, input] = [&self.name, &self.input].map(|text| excerpt(text, INPUT_CHARACTERS));
        let always = if self.choices.always { ", [a]lways" } else { "" };
        let edit = if self.choices.edit { ", [e]dit" } else { "" };
        let show = if self.is_cut() { ", [s]how all" } else { "" };
        format!("Allow {name} {input}? [y]es{always}, [n]o{edit}{show}: ")
    }

    /// Reads what was typed; `None` is the end of all typing.
    pub(super) fn read(&mut self, line: Option<&str>) -> Reading {
        let Some(line) = line.map(str::trim) else { return answer(Reply::Reject, None) };
        match self.awaits {
            Awaits::Choice => self.read_choice(line),
            Awaits::Input => self.read_input(line),
        }
    }

    /// Puts the question from its start, after what the answer came to.
    pub(super) fn start_over(&mut self) {
        self.awaits = Awaits::Choice;
    }

    fn read_choice(&mut self, line: &str) -> Reading {
        match line.to_lowercase().as_str() {
            "y" | "yes" => answer(Reply::Once, None),
            "a" | "always" if self.choices.always => answer(Reply::Always, None),
            "n" | "no" => answer(Reply::Reject, None),
            "e" | "edit" if self.choices.edit => {
                self.awaits = Awaits::Input;
                Reading::Again(String::new())
            }
            "s" | "show" => Reading::Again(format!("{}\n", excerpt(&self.input, usize::MAX))),
            _ => Reading::Again(String::new()),
        }
    }

    fn read_input(&mut self, line: &str) -> Reading {
        if line.is_empty() {
            self.awaits = Awaits::Choice;
            return Reading::Again(String::new());
        }
        match serde_json::from_str::<Box<RawValue>>(line) {
            Ok(input) if input.get().starts_with('{') => answer(Reply::Once, Some(input)),
            Ok(_) => Reading::Again("That is not a JSON object.\n".to_owned()),
            Err(error) => Reading::Again(format!("That is not JSON: {error}\n")),
        }
    }

    fn is_cut(&self) -> bool {
        self.input.chars().nth(INPUT_CHARACTERS).is_some()
    }
}

fn answer(response: Reply, input: Option<Box<RawValue>>) -> Reading {
    Reading::Answer(PermissionResponse { response, input, message: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Choices = Choices { always: true, edit: true };

    fn question(input: &str) -> Question {
        Question::new("per_1", "client_a_read", "read", input, ALL)
    }

    /// What the lines come to: what is sent, or all that was said instead.
    fn typed(question: &mut Question, lines: &[Option<&str>]) -> String {
        let mut said = String::new();
        for line in lines {
            match question.read(*line) {
                Reading::Answer(answer) => return serde_json::to_string(&answer).unwrap(),
                Reading::Again(remark) => said.push_str(&format!("{remark}{}|", question.text())),
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
        let again = typed(&mut Question::new("per_1", "read", "read", "{}", bare), &[Some("a"), Some("e")]);
        assert_eq!(again, "Allow read {}? [y]es, [n]o: |Allow read {}? [y]es, [n]o: |");
    }

    #[test]
    fn an_input_can_be_put_in_place_of_the_models() {
        let edited = typed(&mut question(r#"{"path":"a"}"#), &[Some("e"), Some(" {\"path\":\"b\"} ")]);
        assert_eq!(edited, r#"{"response":"once","input":{"path":"b"}}"#);
        let prompt = "New input (a JSON object; nothing to go back): |";
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
}
