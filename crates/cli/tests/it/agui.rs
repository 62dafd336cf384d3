//! `handback chat --agui`, against a real server with the built-in model and against one that is not ours.

mod foreign;

use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use self::foreign::Foreign;
use crate::chat::{Gated, Stderr, pipe, ran, serve, serve_asking, temporary, wait_for_line, without_numbers};
use crate::processes::{Process, attach, serve_with};
use crate::terminal::Terminal;
use crate::{Ran, command, run};

fn chat_command(agent: &str, arguments: &[&str]) -> Command {
    command(&[&["chat", "--agui", agent], arguments].concat())
}

fn chat(agent: &str, arguments: &[&str]) -> Ran {
    without_numbers(run(chat_command(agent, arguments)))
}

fn start(mut command: Command) -> (Process, Stderr) {
    let mut process = Process(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let stderr = Stderr::of(&mut process);
    (process, stderr)
}

/// What a process has printed, when it has ended.
fn stdout(process: &mut Process) -> String {
    std::io::read_to_string(process.0.stdout.take().unwrap()).unwrap()
}

#[test]
fn a_question_is_answered_from_a_command_of_this_front_end() {
    let (_server, url) = serve();
    for agent in ["agui", "agui/default", "api/v1/rooms/default"] {
        let said =
            chat(&format!("{url}/{agent}"), &["--attach", "shout=tr a-z A-Z", "call shout {\"text\":\"hello\"}"]);
        let stderr = "⚙ shout · receiving\n⚙ shout {\"text\":\"hello\"} · ready\n\
                      ⚙ shout {\"text\":\"hello\"} · running\n✓ shout {\"text\":\"hello\"} · done in #.# s\n  \
                      │ {\"TEXT\":\"HELLO\"}\n# tokens in, # out\n";
        assert_eq!(said, ran(0, "The tool `shout` answered: {\"TEXT\":\"HELLO\"}\n", stderr), "{agent}");
    }
}

#[test]
fn commands_fail_alone() {
    let (_server, url) = serve();
    let tools = ["--attach", "one=printf 1", "--attach", "two=echo broken >&2; exit 3"];
    let said = chat(&format!("{url}/agui"), &[&tools[..], &["call one {}\ncall two {}"]].concat());
    assert_eq!(said.stdout, "The tool `one` answered: 1\n\nThe tool `two` failed: exit status: 3: broken\n");
    for line in ["✓ one {} · done in #.# s\n  │ 1\n", "✗ two {} · failed: exit status: 3: broken\n"] {
        assert!(said.stderr.contains(line), "{said:?}");
    }
    assert_eq!(said.code, Some(0));
}

#[test]
fn two_threads_go_on_at_the_same_time() {
    let (_server, url) = serve();
    let [first, second] = ["first", "second"].map(|tool| Gated::new("agui-two", tool, &format!("printf {tool}")));
    let tools = ["--attach", &first.attached, "--attach", &second.attached];
    let arguments = [&tools[..], &["call first {}", "--also", "call second {}"]].concat();
    let (mut process, mut stderr) = start(chat_command(&format!("{url}/agui"), &arguments));
    // Both run before either is let go, and the second is done before the first.
    wait_for_line(&first.runs);
    wait_for_line(&second.runs);
    second.let_go();
    let until = stderr.wait_for("[2] ✓ second {} · done in ");
    for line in
        ["[1] > call first {}\n", "[2] > call second {}\n", "[1] ⚙ first {} · running\n", "[2] ⚙ second {} · running\n"]
    {
        assert!(until.contains(line), "{until}");
    }
    assert!(!until.contains("[1] ✓"), "{until}");
    first.let_go();
    let rest = stderr.rest();
    assert!(rest.contains("[1] ✓ first {} · done in "), "{rest}");
    let answers = "The tool `first` answered: first\n\nThe tool `second` answered: second\n";
    assert_eq!((stdout(&mut process).as_str(), process.end().code()), (answers, Some(0)));
}

#[test]
fn one_of_several_answers_may_fail() {
    let foreign = Foreign::start(|input, _| {
        let said = input["messages"][0]["content"].as_str().unwrap();
        if said == "fail" { foreign::failed("no") } else { foreign::answered(&format!("{said}?")) }
    });
    let said = chat(&foreign.url, &["one", "--also", "fail", "--also", "two"]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(1), "one?\n\n\ntwo?\n"), "{said:?}");
    assert!(said.stderr.contains("[2] ✗ no\n"), "{said:?}");
    assert!(said.stderr.ends_with("error: 1 of 3 answers failed\n"), "{said:?}");
}

#[test]
fn a_call_that_asks_is_answered_or_rejected() {
    let (_server, url) = serve_asking("agui-asking");
    let (_client, _lines) = attach(&url, &["--tool", "today", "--", "printf", "Sunday"]);
    let agent = format!("{url}/agui");
    let arguments = ["--forward", "clientID=laptop", "call today {}"];
    let begun = "⚙ client_laptop_today · receiving\n⚙ client_laptop_today {} · ready\n";
    let stderr = format!(
        "{begun}client_laptop_today needs to be allowed, and nobody can be asked here; --yes allows\n\
         ✗ client_laptop_today {{}} · failed: This call needs to be allowed, and nobody could be asked\n\
         # tokens in, # out\n"
    );
    let stdout = "The tool `today` failed: This call needs to be allowed, and nobody could be asked\n";
    assert_eq!(chat(&agent, &arguments), ran(0, stdout, &stderr));
    let said = chat(&agent, &[&["--yes"], &arguments[..]].concat());
    let stderr = format!("{begun}✓ client_laptop_today {{}} · done\n  │ Sunday\n# tokens in, # out\n");
    assert_eq!(said, ran(0, "The tool `today` answered: Sunday\n", &stderr));

    let asked = |answer: &str| {
        let mut chat = chat_command(&agent, &arguments);
        chat.env("NO_COLOR", "1");
        let mut terminal = Terminal::run(chat);
        terminal.wait_for("Allow client_laptop_today {}? [y]es, [a]lways, [n]o, [e]dit: ");
        terminal.type_in(&format!("{answer}\n"));
        terminal.wait_for_end()
    };
    let (shown, code) = asked("y");
    assert_eq!(code, Some(0));
    assert!(
        shown.contains("✓ client_laptop_today {} · done\n  │ Sunday\nThe tool `today` answered: Sunday\n"),
        "{shown}"
    );
    let (shown, code) = asked("n");
    assert_eq!(code, Some(0));
    assert!(
        shown.contains("✗ client_laptop_today {} · failed: ") && shown.contains("The tool `today` failed: "),
        "{shown}"
    );
}

#[test]
fn a_server_that_goes_away_in_the_middle_is_an_error() {
    let (mut server, url) = serve();
    let slow = Gated::new("agui-gone", "slow", "printf done");
    let (mut process, mut stderr) =
        start(chat_command(&format!("{url}/agui"), &["--attach", &slow.attached, "call slow {}"]));
    wait_for_line(&slow.runs);
    server.signal(Signal::KILL);
    server.end();
    slow.let_go();
    stderr.wait_for("✓ slow {} · done in ");
    let rest = stderr.rest();
    assert!(rest.contains("error: the connection to the agent was lost: "), "{rest}");
    assert!(rest.ends_with("\n  tip: is it running? --agui names its URL\n"), "{rest}");
    assert_eq!((stdout(&mut process).as_str(), process.end().code()), ("", Some(1)));

    let foreign = Foreign::start(|_, _| foreign::cut_off("It is"));
    let said = chat(&foreign.url, &["what day is it?"]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(1), "It is\n"));
    assert!(said.stderr.starts_with("error: the connection to the agent was lost: "), "{said:?}");
}

#[test]
fn ctrl_c_stops_the_runs_and_the_commands() {
    let (_server, url) = serve();
    let (running, stopped) = (pipe("agui-running"), temporary("agui-stopped"));
    let script = "trap 'echo yes > $STOPPED; exit' TERM; echo yes > $RUNNING; sleep 60 & wait";
    let tool = format!("slow=RUNNING={} STOPPED={}; {script}", running.display(), stopped.display());
    let (mut process, mut stderr) = start(chat_command(&format!("{url}/agui"), &["--attach", &tool, "call slow {}"]));
    stderr.wait_for("⚙ slow {} · running\n");
    wait_for_line(&running);
    process.signal(Signal::INT);
    let rest = stderr.rest();
    assert!(rest.starts_with("✗ slow {} · failed: the run was cancelled\n"), "{rest}");
    assert!(rest.ends_with("\nerror: the turn was aborted\n"), "{rest}");
    assert_eq!(process.end().code(), Some(130));
    assert_eq!(std::fs::read_to_string(&stopped).unwrap(), "yes\n");
    std::fs::remove_file(running).unwrap();
    std::fs::remove_file(stopped).unwrap();
}

/// Who says what in a message.
fn shown(message: &Value) -> (&str, &str) {
    (message["role"].as_str().unwrap(), message["content"].as_str().unwrap_or_default())
}

#[test]
fn the_messages_can_be_had_as_json() {
    let (_server, url) = serve();
    let said = chat(
        &format!("{url}/agui"),
        &["--json", "--attach", "echo=cat", "call echo {\"a\":1}", "--also", "call echo {}"],
    );
    assert_eq!(said.code, Some(0), "{said:?}");
    let threads: Vec<Vec<Value>> = said.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let shown: Vec<Vec<(&str, &str)>> = threads.iter().map(|messages| messages.iter().map(shown).collect()).collect();
    let thread =
        |said, output, answer| vec![("user", said), ("assistant", ""), ("tool", output), ("assistant", answer)];
    let expected = [
        thread("call echo {\"a\":1}", "{\"a\":1}", "The tool `echo` answered: {\"a\":1}"),
        thread("call echo {}", "{}", "The tool `echo` answered: {}"),
    ];
    assert_eq!(shown, expected);
}

#[test]
fn a_server_that_is_not_ours_and_knows_less() {
    let foreign = Foreign::start(|input, number| match number {
        1 => foreign::called("shout", &["{\"text\":", "\"hello\"}"]),
        _ => foreign::answered(&format!("It says {}.", input["messages"][2]["content"].as_str().unwrap())),
    });
    let mut command =
        chat_command(&foreign.url, &["--attach", "shout=tr a-z A-Z", "--forward", "depth=3", "shout hello"]);
    command.env("HANDBACK_TOKEN", "secret");
    let said = without_numbers(run(command));
    let stderr = "⚙ shout · receiving\n⚙ shout {\"text\":\"hello\"} · ready\n⚙ shout {\"text\":\"hello\"} · running\n\
                  ✓ shout {\"text\":\"hello\"} · done in #.# s\n  │ {\"TEXT\":\"HELLO\"}\n";
    assert_eq!(said, ran(0, "It says {\"TEXT\":\"HELLO\"}.\n", stderr));
    let asked = foreign.asked();
    assert_eq!(asked.len(), 2);
    for (token, input) in &asked {
        assert_eq!((token.as_deref(), &input["forwardedProps"]), (None, &serde_json::json!({"depth": 3})));
        assert_eq!(input["tools"][0]["name"], "shout");
    }
    assert_eq!(asked[0].1["threadId"], asked[1].1["threadId"]);

    let foreign = Foreign::start(|_, _| foreign::answered("Yes."));
    chat(&foreign.url, &["--token", "mine", "is it?"]);
    let mut own = chat_command(&foreign.url, &["is it?"]);
    own.env("HANDBACK_TOKEN", "own").env("HANDBACK_URL", foreign.url.strip_suffix("/awp").unwrap());
    run(own);
    let tokens: Vec<Option<String>> = foreign.asked().into_iter().map(|(token, _)| token).collect();
    assert_eq!(tokens, ["Bearer mine", "Bearer own"].map(|token| Some(token.to_owned())));
}

#[test]
fn calls_of_two_threads_are_told_apart_although_they_have_the_same_id() {
    let foreign = Foreign::start(|input, _| match input["messages"].as_array().unwrap().as_slice() {
        [said] => foreign::called(said["content"].as_str().unwrap(), &["{}"]),
        [.., result] => foreign::answered(result["content"].as_str().unwrap()),
        [] => foreign::failed("there are no messages"),
    });
    let tools = ["--attach", "one=printf 1", "--attach", "two=echo broken >&2; exit 3"];
    let said = run(chat_command(&foreign.url, &[&tools[..], &["one", "--also", "two"]].concat()));
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "1\n\nexit status: 3: broken\n"), "{said:?}");
    // How long it took is left out.
    let of = |mark: &str| {
        let lines = said.stderr.lines().filter(|line| line.starts_with(mark));
        lines.map(|line| line.split(" in ").next().unwrap()).collect::<Vec<_>>().join("\n")
    };
    let stages = |mark: &str, tool: &str| {
        format!(
            "{mark} > {tool}\n{mark} ⚙ {tool} · receiving\n{mark} ⚙ {tool} {{}} · ready\n{mark} ⚙ {tool} {{}} · running"
        )
    };
    assert_eq!(of("[1]"), format!("{}\n[1] ✓ one {{}} · done\n[1]   │ 1", stages("[1]", "one")));
    assert_eq!(of("[2]"), format!("{}\n[2] ✗ two {{}} · failed: exit status: 3: broken", stages("[2]", "two")));
}

#[test]
fn a_question_that_is_not_answered_can_be_asked_again() {
    let (_server, url) = serve_asking("agui-again");
    let (_client, _lines) = attach(&url, &["--tool", "today", "--", "printf", "Sunday"]);
    let mut chat = chat_command(&format!("{url}/agui"), &["--forward", "clientID=laptop"]);
    chat.env("NO_COLOR", "1");
    let mut terminal = Terminal::run(chat);
    let question = "Allow client_laptop_today {}? [y]es, [a]lways, [n]o, [e]dit: ";
    let stays_open = "\nThe question stays open; /retry asks it again.\n\n> ";
    terminal.wait_for("\n> ");
    terminal.type_in("call today {}\n");
    terminal.wait_for(question);
    terminal.process.signal(Signal::INT);
    terminal.wait_for(stays_open);
    terminal.type_in("/retry\n");
    terminal.wait_for(question);
    terminal.process.signal(Signal::INT);
    terminal.wait_for(stays_open);
    // Whoever says something else has not allowed it.
    terminal.type_in("call list_tools {}\n");
    let answer = terminal.wait_for("\n\n> ");
    assert!(answer.contains("✗ client_laptop_today {} · failed: The user cancelled this call\n"), "{answer}");
    assert!(answer.contains("✓ list_tools {} · done\n"), "{answer}");
    terminal.type_in("/quit\n");
    assert_eq!(terminal.wait_for_end().1, Some(0));
}

#[test]
fn ctrl_c_at_a_question_is_one_ctrl_c_whenever_it_comes() {
    let (_server, url) = serve_asking("agui-one");
    let (_client, _lines) = attach(&url, &["--tool", "today", "--", "printf", "Sunday"]);
    let mut chat = chat_command(&format!("{url}/agui"), &["--forward", "clientID=laptop"]);
    chat.env("NO_COLOR", "1");
    let mut terminal = Terminal::run(chat);
    terminal.wait_for("\n> ");
    terminal.type_in("call today {}\n");
    // So often that some signals arrive just while the chat asks the terminal whether there is a line to read.
    for _ in 0..5_000 {
        terminal.wait_for("Allow client_laptop_today {}? [y]es, [a]lways, [n]o, [e]dit: ");
        terminal.process.signal(Signal::INT);
        terminal.wait_for("\nThe question stays open; /retry asks it again.\n\n> ");
        terminal.type_in("/retry\n");
    }
}

#[test]
fn a_conversation_at_a_terminal() {
    let (_server, url) = serve();
    let slow = Gated::new("agui-terminal", "slow", "printf slept");
    let mut chat = chat_command(&format!("{url}/agui"), &["--attach", &slow.attached, "--attach", "echo=cat"]);
    chat.env("NO_COLOR", "1");
    let mut terminal = Terminal::run(chat);
    let introduction = terminal.wait_for("\n> ");
    assert!(introduction.contains(&format!("agent    {url}/agui\ntools    slow, echo\n")), "{introduction}");
    terminal.type_in("call slow {}\n");
    terminal.wait_for("⚙ slow {} · running\n");
    wait_for_line(&slow.runs);
    // Another thread, while the first goes on.
    terminal.type_in("/new call echo {\"a\":1}\n");
    terminal.wait_for("[2] A new thread.\n");
    let second = terminal.wait_for("[2] The tool `echo` answered: {\"a\":1}\n");
    assert!(second.contains("[2] ✓ echo {\"a\":1} · done in ") && !second.contains("[1] ✓"), "{second}");
    terminal.type_in("/threads\n");
    let threads = terminal.wait_for("call echo {\"a\":1}\n");
    assert!(threads.contains("1             running  call slow {}\n"), "{threads}");
    // What is said in a thread that answers waits.
    terminal.type_in("/thread 1\n");
    terminal.type_in("call echo {\"b\":2}\n");
    terminal.wait_for("[1] It is said when this thread has answered");
    slow.let_go();
    let first = terminal.wait_for("\n[1] > ");
    assert!(first.contains("[1] The tool `slow` answered: slept\n"), "{first}");
    terminal.wait_for("call echo {\"b\":2}\n");
    terminal.wait_for("[1] The tool `echo` answered: {\"b\":2}\n");
    terminal.wait_for("\n\n[1] > ");

    terminal.type_in("call slow {}\n");
    terminal.wait_for("⚙ slow {} · running\n");
    wait_for_line(&slow.runs);
    terminal.process.signal(Signal::INT);
    terminal.wait_for("[1] ✗ slow {} · failed: the run was cancelled\n");
    terminal.wait_for("[1] The turn was aborted.\n\n[1] > ");
    terminal.type_in("/quit\n");
    assert_eq!(terminal.wait_for_end().1, Some(0));
}

#[test]
fn an_answer_that_failed_is_asked_for_again_and_its_tools_are_not_run_again() {
    let data = temporary("agui-retry-data");
    let listen =
        |listen: &str| serve_with(&["serve", "--listen", listen, "--log", "off", "--data", data.to_str().unwrap()]);
    let (mut server, url) = listen("127.0.0.1:0");
    let count = temporary("agui-retry-count");
    let slow = Gated::new("agui-retry", "slow", &format!("echo ran >> {}; printf slept", count.display()));
    let mut chat = chat_command(&format!("{url}/agui"), &["--attach", &slow.attached]);
    chat.env("NO_COLOR", "1");
    let mut terminal = Terminal::run(chat);
    terminal.wait_for("\n> ");
    terminal.type_in("call slow {}\n");
    wait_for_line(&slow.runs);
    server.signal(Signal::TERM);
    server.end();
    slow.let_go();
    terminal.wait_for("✓ slow {} · done in ");
    let failed = terminal.wait_for("/retry asks again.\n\n> ");
    assert!(failed.contains("✗ the connection to the agent was lost: "), "{failed}");
    let (_server, _) = listen(url.strip_prefix("http://").unwrap());
    terminal.type_in("/retry\n");
    let answer = terminal.wait_for("\n\n> ");
    assert!(answer.starts_with("/retry\nThe tool `slow` answered: slept\n"), "{answer}");
    assert_eq!(std::fs::read_to_string(&count).unwrap(), "ran\n");
    terminal.type_in("\u{4}");
    assert_eq!(terminal.wait_for_end().1, Some(0));
    std::fs::remove_file(count).unwrap();
    std::fs::remove_dir_all(data).unwrap();
}
