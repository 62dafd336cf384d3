//! Lines `call <tool> <json>`.

use super::super::{MOST_CALLS, line};
use super::*;

fn tools() -> Vec<Offered> {
    vec![
        list_tools(),
        tool("echo", "Says it again", r#"{"type":"object","properties":{"text":{"type":"string"}}}"#),
        tool("get_time", "The time", "{}"),
        tool("app:open", "Opens the app", "{}"),
    ]
}

/// The calls that a text asks for, by alias and arguments; a text that asks for none is answered in words.
fn calls(text: &str) -> Vec<(String, String)> {
    let said = answer_to(text, &tools());
    assert_eq!(said.text.is_empty(), !said.calls.is_empty(), "{text}");
    said.calls.into_iter().map(|(_, name, arguments)| (name, arguments)).collect()
}

fn one(name: &str, arguments: &str) -> Vec<(String, String)> {
    vec![(name.to_owned(), arguments.to_owned())]
}

#[test]
fn the_arguments_are_exactly_what_is_written() {
    for arguments in [
        "{}",
        r#"{"text": "a  b" ,"n":1e3,  "é":[ null ] }"#,
        r#"{"text":"call get_time {}"}"#,
        "{oops",
        r#"{"a":1} and more"#,
        r#"{"a":1}{"b":2}"#,
        "[1,2",
        "[]",
        "nonsense",
        "not even json",
        "42",
        "null",
        r#""text""#,
        "`ticks`",
        &format!("{{\"text\":\"{}\"}}", "long ".repeat(10_000)),
        &"[".repeat(100_000),
    ] {
        assert_eq!(calls(&format!("call echo {arguments}")), one("client_laptop_echo", arguments), "{arguments}");
    }
    assert_eq!(calls("call echo"), one("client_laptop_echo", "{}"));
    assert_eq!(calls("call echo{\"a\":1}"), one("client_laptop_echo", "{\"a\":1}"));
}

#[test]
fn a_tool_is_named_by_its_id_its_alias_or_its_own_name() {
    for name in ["client_laptop_app:open", "client_laptop_app_open", "app:open", "APP:Open", "CLIENT_laptop_app:open"] {
        assert_eq!(calls(&format!("call {name} {{}}")), one("client_laptop_app_open", "{}"), "{name}");
    }
    // What is exact goes first, and of exact names the full id.
    let mut tools = vec![tool("Echo", "", "{}"), tool("echo", "", "{}"), tool("x", "", "{}"), tool("y", "", "{}")];
    tools[2].name = "client_laptop_y".to_owned();
    assert_eq!(answer_to("call echo {}", &tools), Said::call("echo", "{}"));
    assert_eq!(answer_to("call ECHO {}", &tools), Said::call("Echo", "{}"));
    assert_eq!(answer_to("call client_laptop_y {}", &tools), Said::call("y", "{}"));
}

#[test]
fn a_tool_that_is_not_there_is_called_by_the_very_name() {
    for (line, name, arguments) in [
        ("call nope {}", "nope", "{}"),
        ("call nope {broken", "nope", "{broken"),
        ("call nope []", "nope", "[]"),
        ("call client_phone_vibrate", "client_phone_vibrate", "{}"),
        ("call client_phone_vibrate 42", "client_phone_vibrate", "42"),
        ("call no_such_tool", "no_such_tool", "{}"),
        ("call no-such-tool", "no-such-tool", "{}"),
        ("call ünknown {}", "ünknown", "{}"),
    ] {
        assert_eq!(calls(line), one(name, arguments), "{line}");
    }
}

#[test]
fn prose_is_not_a_call() {
    for text in [
        "call me maybe",
        "Call me.",
        "call mom",
        "call 555-1234",
        "call the doctor {}",
        "calling echo {}",
        "call",
        "call ",
        "call {}",
        "recall echo {}",
        "call echo for me",
        "please call echo-like things",
        "call two words {}",
        "call `two words` {}",
        &format!("call {} {{}}", "x".repeat(300)),
        &format!("call {}", "_x".repeat(2_000_000)),
    ] {
        let tools = tools();
        assert_eq!(line::calls(text, &model_tools(&tools)), [], "{}", &text[..text.len().min(60)]);
    }
    // It is read as a sentence instead.
    let weather = tool_with("get_weather", "The weather", &[("city!", r#"{"type":"string"}"#)]);
    assert_eq!(answer_to("call get_weather for Paris", &[weather]), Said::call("get_weather", r#"{"city":"Paris"}"#));
}

#[test]
fn what_stands_around_a_line_does_not_matter() {
    for text in [
        "  call echo {\"a\":1}  ",
        "\tCall echo\t{\"a\":1}\r\n",
        "CALL echo {\"a\":1}",
        "- call echo {\"a\":1}",
        "* call echo {\"a\":1}",
        "> call echo {\"a\":1}",
        "12. call echo {\"a\":1}",
        "`call echo {\"a\":1}`",
        "- ``call echo {\"a\":1}``",
        "call `echo` {\"a\":1}",
        "Would you please do this?\n\n```\ncall echo {\"a\":1}\n```\nThank you!",
    ] {
        assert_eq!(calls(text), one("client_laptop_echo", "{\"a\":1}"), "{text}");
    }
}

#[test]
fn json_goes_on_over_lines_that_complete_it() {
    let object = "{\n  \"text\": \"x\",\r\n\n  \"list\": [\n1, 2]\n}";
    assert_eq!(calls(&format!("call echo {object}")), one("client_laptop_echo", object));
    assert_eq!(calls(&format!("`call echo {object}`")), one("client_laptop_echo", object));
    let text = format!("first\ncall echo {object}  \ncall get_time [\n]\nlast");
    let expected = [one("client_laptop_echo", object), one("client_laptop_get_time", "[\n]")].concat();
    assert_eq!(calls(&text), expected);
    let deep = format!("{}\n{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(calls(&format!("call echo {deep}")), one("client_laptop_echo", &deep));

    // Lines that do not complete it are not part of it.
    for rest in ["", "\n", "\n\"a\":1", "\n\"a\":1} and more", "\n}}", "\nhello"] {
        assert_eq!(calls(&format!("call echo {{{rest}")), one("client_laptop_echo", "{"), "{rest:?}");
    }
    let expected = [one("client_laptop_echo", "["), one("client_laptop_get_time", "{}")].concat();
    assert_eq!(calls("call echo [\ncall get_time {}\n]"), expected);
}

#[test]
fn several_lines_are_calls_of_one_step() {
    let text = "call echo {\"n\":1}\nand then\ncall nope {}\ncall echo {\"n\":1}";
    let expected = [("client_laptop_echo", "{\"n\":1}"), ("nope", "{}"), ("client_laptop_echo", "{\"n\":1}")];
    assert_eq!(answer_to(text, &tools()), Said::calls(&expected));
    // In several parts of the message as well.
    let parts = user_with(vec![said("call echo {\"n\":1}"), said("and\ncall nope {}"), said(" call echo {\"n\":1}")]);
    assert_eq!(answer(&[parts], &tools()), Said::calls(&expected));
}

#[test]
fn a_step_has_only_so_many_calls() {
    let said = answer_to(&"call echo {}\n".repeat(MOST_CALLS + 3), &tools());
    assert_eq!(said.text, "I make 1024 calls at a time; 3 more are left out.");
    let expected = Said::calls(&[("client_laptop_echo", "{}"); MOST_CALLS]);
    assert_eq!(said.calls, expected.calls);
    assert_eq!(answer_to(&"call echo {}\n".repeat(MOST_CALLS), &tools()), expected);
}

#[test]
fn a_call_is_streamed_in_a_few_pieces() {
    let call = |text: &str| events(&[user(text)], &tools());
    let (started, ended) = (
        ModelEvent::CallStarted { index: 0, id: "scripted_1_1".to_owned(), name: "client_laptop_echo".to_owned() },
        ModelEvent::CallEnded { index: 0, kept: None },
    );
    let piece = |delta: &str| ModelEvent::Arguments { index: 0, delta: delta.to_owned() };
    let end = |input, output| {
        [ModelEvent::Usage(Usage { input, output, ..Usage::default() }), ModelEvent::Stop(StopReason::ToolCalls)]
    };
    let [usage, stop] = end(3, 5);
    assert_eq!(call("call echo {}"), [started.clone(), piece("{}"), ended.clone(), usage, stop]);
    let pieces = [piece("{\"text\":"), piece("\"ä b\"}")];
    let [usage, stop] = end(7, 9);
    let expected = [vec![started], pieces.to_vec(), vec![ended, usage, stop]].concat();
    assert_eq!(call("call echo {\"text\":\"ä b\"}"), expected);
    let long = call(&format!("call echo {{\"text\":\"{}\"}}", "é".repeat(500_000)));
    assert_eq!(long.len(), 1 + 4 + 1 + 2);
}

#[test]
fn only_the_last_message_of_the_user_counts() {
    let history = [
        user("call nope {}"),
        assistant(vec![failed("nope", "There is no such tool")]),
        assistant(vec![said("The tool `nope` failed.")]),
        user("call echo {}"),
    ];
    let calls = vec![("scripted_4_1".to_owned(), "client_laptop_echo".to_owned(), "{}".to_owned())];
    assert_eq!(answer(&history, &tools()), Said { text: String::new(), calls });
}
