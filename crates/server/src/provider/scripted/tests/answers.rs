//! What it says to results, and when there is nothing to call.

use super::*;

fn tools() -> Vec<Offered> {
    vec![tool("get_time", "The time", "{}"), tool("camera", "Takes photos", "{}")]
}

/// What it says to a message that these calls were made for.
fn answer_from(calls: Vec<PartBody>) -> Said {
    answer(&[user("call something {}"), assistant(calls)], &tools())
}

#[test]
fn an_output_is_quoted() {
    let said = answer_from(vec![completed("client_laptop_get_time", "12:30 ~ \"é\" `x`", vec![])]);
    assert_eq!(said, Said::text("The tool `get_time` answered: 12:30 ~ \"é\" `x`"));
    let said = answer_from(vec![completed("client_laptop_get_time", " {\n  \"a\": 1\n}", vec![])]);
    assert_eq!(said, Said::text("The tool `get_time` answered:\n {\n  \"a\": 1\n}"));
    let said = answer_from(vec![completed("client_laptop_get_time", " \n", vec![])]);
    assert_eq!(said, Said::text("The tool `get_time` is done; it gave no output."));
}

#[test]
fn a_failure_is_told_with_its_reason() {
    for (part, expected) in [
        (
            failed("client_laptop_get_time", "Client tool execution timed out after 30000ms"),
            "The tool `get_time` failed: Client tool execution timed out after 30000ms",
        ),
        // A tool that is not offered goes by what the model called it.
        (failed("nope", "There is no tool \"nope\""), "The tool `nope` failed: There is no tool \"nope\""),
        (failed("nope", ""), "The tool `nope` failed and did not say why."),
        (
            called("nope", ToolState::Running { input: raw("{}"), start: Time(0) }),
            "The tool `nope` failed: The turn ended before this call was over; its outcome is unknown.",
        ),
    ] {
        assert_eq!(answer_from(vec![part]), Said::text(expected));
    }
}

#[test]
fn attachments_are_named() {
    let attachments = vec![file(Some("photo.png"), "image/png"), file(None, "text/plain"), file(Some(""), "a/b")];
    let said = answer_from(vec![completed("client_laptop_camera", "Done", attachments)]);
    let expected = "The tool `camera` answered: Done\n\
                    It came with photo.png (image/png), a file (text/plain), a file (a/b).";
    assert_eq!(said, Said::text(expected));
    let said = answer_from(vec![completed("client_laptop_camera", "", vec![file(Some("photo.png"), "image/png")])]);
    let expected = "The tool `camera` is done; it gave no output.\nIt came with photo.png (image/png).";
    assert_eq!(said, Said::text(expected));
    let many = vec![file(Some(&"x".repeat(1_000)), "image/png"); 1_000];
    let said = answer_from(vec![completed("client_laptop_camera", "Done", many)]);
    assert!(said.text.ends_with("… (image/png), and 980 more."), "{}", said.text);
    assert!(said.text.len() < 20 * 200, "{}", said.text.len());
}

#[test]
fn every_call_of_every_step_has_its_paragraph_in_order() {
    let turn = [
        user("call a {}\ncall b {}"),
        assistant(vec![
            PartBody::StepStart,
            completed("client_laptop_get_time", "12:30", vec![]),
            failed("nope", "no such tool"),
            completed("client_laptop_get_time", "12:31", vec![]),
        ]),
        assistant(vec![said("So far so good."), completed("client_laptop_camera", "a\nb", vec![])]),
    ];
    let expected = "The tool `get_time` answered: 12:30\n\nThe tool `nope` failed: no such tool\n\n\
                    The tool `get_time` answered: 12:31\n\nThe tool `camera` answered:\na\nb";
    assert_eq!(answer(&turn, &tools()), Said::text(expected));
    // Results of an earlier message are not answered again.
    let later = [&turn[..], &[user("hello")]].concat();
    assert_eq!(answer(&later, &tools()), answer_to("hello", &tools()));
}

#[test]
fn long_output_is_cut_with_a_note() {
    let output = "é".repeat(1_000_000);
    let said = answer_from(vec![completed("client_laptop_get_time", &output, vec![])]);
    let expected =
        format!("The tool `get_time` answered:\n{}\n\n[cut: 4096 of 2000000 bytes are shown]", "é".repeat(2_048));
    assert_eq!(said, Said::text(&expected));
    let said = answer_from(vec![failed("nope", &"x".repeat(5_000))]);
    let expected = format!("The tool `nope` failed: {}\n\n[cut: 4096 of 5000 bytes are shown]", "x".repeat(4_096));
    assert_eq!(said, Said::text(&expected));
    // Of many outputs each gets its share.
    let many = answer_from(vec![completed("client_laptop_get_time", &"x".repeat(10_000), vec![]); 64]);
    let one = format!("The tool `get_time` answered:\n{}\n\n[cut: 1024 of 10000 bytes are shown]", "x".repeat(1_024));
    assert_eq!(many, Said::text(&vec![one; 64].join("\n\n")));
}

#[test]
fn an_answer_comes_word_by_word_or_in_few_pieces() {
    let pieces = |output: &str| -> Vec<String> {
        let turn = [user("time?"), assistant(vec![completed("client_laptop_get_time", output, vec![])])];
        let texts = events(&turn, &tools()).into_iter().filter_map(|event| match event {
            ModelEvent::Text(text) => Some(text),
            _ => None,
        });
        texts.collect()
    };
    assert_eq!(pieces("half past"), ["The ", "tool ", "`get_time` ", "answered: ", "half ", "past"]);
    let long = pieces(&"word ".repeat(800));
    assert!((100..=201).contains(&long.len()), "{}", long.len());
}

#[test]
fn the_tokens_of_an_answer_are_counted() {
    let turn = [user("time?"), assistant(vec![completed("client_laptop_get_time", "12:30", vec![])])];
    let last = events(&turn, &tools()).split_off(5);
    let usage = Usage { input: 10, output: 9, ..Usage::default() };
    assert_eq!(last, [ModelEvent::Usage(usage), ModelEvent::Stop(StopReason::Stop)]);
}

#[test]
fn where_no_tool_fits_it_says_what_it_is_and_how_to_go_on() {
    let real = "For a real model set `OPENAI_API_KEY` or `ANTHROPIC_API_KEY`, or name one under `providers` in the \
                configuration.";
    let itself = "I am the scripted demo model. I need no key, and I do not think: I look for a tool that fits your \
                  words, and found none.";
    let expected = format!(
        "{itself}\n\nTools here: `get_time`, `camera`. A line like `call get_time {{…}}` calls one with exactly that \
         JSON.\n\n{real}"
    );
    for text in ["hello", "Hi there!", "how are you?", "thanks", "call me maybe", "", " \n", "?!", "tell me a joke"] {
        assert_eq!(answer_to(text, &tools()), Said::text(&expected), "{text}");
    }
    assert_eq!(answer(&[], &tools()), Said::text(&expected));
    let none = format!("{itself}\n\nThere are no tools here yet: register one, and ask again.\n\n{real}");
    assert_eq!(answer_to("hello", &[]), Said::text(&none));
    let many: Vec<Offered> = (0..128).map(|number| tool(&format!("t{number}"), "", "{}")).collect();
    let said = answer_to("hello", &many).text;
    assert!(
        said.contains("`t0`, `t1`, ") && said.contains(", `t19`, and 108 more. A line like `call t0 {…}`"),
        "{said}"
    );
}

#[test]
fn files_of_the_user_are_named() {
    let files = vec![said("time?"), PartBody::File(file(Some("cat.jpg"), "image/jpeg"))];
    let note = "I can not look into files; with your message came cat.jpg (image/jpeg).";
    // A tool is picked all the same, and the answer names the file.
    assert_eq!(answer(&[user_with(files.clone())], &tools()), Said::call("get_time", "{}"));
    let turn = [user_with(files), assistant(vec![completed("client_laptop_get_time", "12:30", vec![])])];
    assert_eq!(answer(&turn, &tools()), Said::text(&format!("The tool `get_time` answered: 12:30\n\n{note}")));
    let only = answer(&[user_with(vec![PartBody::File(file(Some("cat.jpg"), "image/jpeg"))])], &[]);
    assert_eq!(only.text, format!("{}\n\n{note}", answer_to("", &[]).text));
}

#[test]
fn there_is_no_other_model() {
    let error = TurnError::Provider {
        message: "there is no model \"gpt\" here, only \"scripted\"".to_owned(),
        status: Some(404),
        retryable: false,
    };
    assert_eq!(events_of("gpt", &[user("hello")], &tools()), [Err(error)]);
}
