//! A model that says anything, clients and pages that answer anyhow: every stream keeps the rules.
//!
//! The rules are looked at by [`AguiStream`] itself; what is looked at here besides is that each run is over, that a
//! page can always go on, and that all that is told of a run of a thread is kept as it was told.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use futures_util::stream;
use handback_core::sessions::{Model, ModelEvent, ModelRequest, ModelStream};
use handback_core::store::{ModelRef, StopReason, TurnError, Usage};
use handback_core::tools::Permission;
use handback_server::app::Extensions;
use handback_testkit::agui::{Generation, Page, Rules, resolved};
use handback_testkit::client::{failure, success};
use handback_testkit::model::{MODEL, PROVIDER, Piece};
use handback_testkit::server::until;
use handback_testkit::session::permit;
use handback_testkit::{AguiStream, ScriptedClient, TestServer};
use proptest::collection::vec;
use proptest::prelude::*;
use reqwest::Method;
use serde_json::{Value, json};

/// What a model says next.
#[derive(Debug, Clone)]
enum Said {
    Text(&'static str),
    Thought(&'static str),
    Call { index: usize, tool: &'static str },
    Arguments { index: usize, delta: &'static str },
    CallEnded { index: usize },
    Usage(u64),
    Failure,
    Stop(bool),
}

fn said() -> impl Strategy<Value = Said> {
    let text = || prop::sample::select(vec!["", "Hello", " ", "\n\n", "data: x\n\n", "\u{1f600}"]);
    let tool = prop::sample::select(vec!["pick", "pick", "client_tab_t", "client_tab_u", "list_tools", "nobody", ""]);
    let arguments = prop::sample::select(vec!["", "{}", "{}", "{\"n\":", "1}", "{\"n\":1}", "{\"n\":\"x\"}", "["]);
    prop_oneof![
        3 => text().prop_map(Said::Text),
        2 => text().prop_map(Said::Thought),
        3 => (0..3usize, tool).prop_map(|(index, tool)| Said::Call { index, tool }),
        3 => (0..3usize, arguments).prop_map(|(index, delta)| Said::Arguments { index, delta }),
        3 => (0..3usize).prop_map(|index| Said::CallEnded { index }),
        1 => (0..9u64).prop_map(Said::Usage),
        1 => Just(Said::Failure),
        1 => any::<bool>().prop_map(Said::Stop),
    ]
}

/// A step of a model: most often in an order in which models speak, sometimes in any.
fn step() -> impl Strategy<Value = Vec<Said>> {
    let mostly_mended = prop::sample::select(vec![true, true, true, true, false]);
    (vec(said(), 0..16), mostly_mended).prop_map(|(said, is_mended)| if is_mended { mended(said) } else { said })
}

/// The same in an order in which models speak: each call has a number of its own, what is said of calls is said of those
/// that have begun, and the end is the end.
fn mended(said: Vec<Said>) -> Vec<Said> {
    let (mut calls, mut open) = (0, Vec::new());
    let mut mended = Vec::new();
    for said in said {
        mended.push(match said {
            Said::Call { tool, .. } => {
                calls += 1;
                open.push(calls - 1);
                Said::Call { index: calls - 1, tool }
            }
            Said::Arguments { .. } | Said::CallEnded { .. } if open.is_empty() => continue,
            Said::Arguments { index, delta } => Said::Arguments { index: open[index % open.len()], delta },
            Said::CallEnded { index } => Said::CallEnded { index: open.remove(index % open.len()) },
            Said::Stop(_) => continue,
            other => other,
        });
    }
    mended.extend(open.into_iter().map(|index| Said::CallEnded { index }));
    mended.push(Said::Stop(calls > 0));
    mended
}

impl Said {
    fn piece(&self) -> Piece {
        let other = |message: &str| TurnError::Other(message.to_owned());
        Ok(match *self {
            Self::Text(text) => ModelEvent::Text(text.to_owned()),
            Self::Thought(text) => ModelEvent::Reasoning(text.to_owned()),
            Self::Call { index, tool } => ModelEvent::CallStarted { index, id: String::new(), name: tool.to_owned() },
            Self::Arguments { index, delta } => ModelEvent::Arguments { index, delta: delta.to_owned() },
            Self::CallEnded { index } => ModelEvent::CallEnded { index, kept: None },
            Self::Usage(tokens) => ModelEvent::Usage(Usage {
                input: tokens,
                output: tokens,
                reasoning: Some(tokens / 2),
                ..Usage::default()
            }),
            Self::Failure => return Err(other("the model failed")),
            Self::Stop(for_calls) => ModelEvent::Stop(if for_calls { StopReason::ToolCalls } else { StopReason::Stop }),
        })
    }
}

/// A model that says what was written down, and then that it is done.
#[derive(Clone, Default)]
struct RandomModel(Arc<Mutex<VecDeque<Vec<Said>>>>);

impl Model for RandomModel {
    fn stream(&self, _request: ModelRequest<'_>) -> ModelStream {
        let step = self.0.lock().unwrap().pop_front();
        let step = step.unwrap_or_else(|| vec![Said::Text("Done."), Said::Stop(false)]);
        Box::pin(stream::iter(step.iter().map(Said::piece).collect::<Vec<_>>()))
    }
}

/// What a page does when a run is over.
#[derive(Debug, Clone)]
enum Next {
    /// Answers its calls, all or some of them.
    Answer { leaves_out: usize },
    /// Says something, with or without answering its calls.
    Say { answers: bool },
    /// Sends the same again.
    Repeat,
    /// Says something, leaves after so many events, and says the same again.
    Leave { after: usize },
}

fn next() -> impl Strategy<Value = Next> {
    prop_oneof![
        4 => (0..4usize).prop_map(|leaves_out| Next::Answer { leaves_out }),
        2 => any::<bool>().prop_map(|answers| Next::Say { answers }),
        1 => Just(Next::Repeat),
        1 => (0..8usize).prop_map(|after| Next::Leave { after }),
    ]
}

#[derive(Debug, Clone)]
struct Case {
    steps: Vec<Vec<Said>>,
    nexts: Vec<Next>,
    /// What the client says of each of its calls, over and over; nothing is a failure.
    answers: Vec<Option<&'static str>>,
    /// Which questions are answered with yes.
    approvals: Vec<bool>,
    permission: Permission,
    generation: Generation,
    is_in_thread: bool,
}

fn case() -> impl Strategy<Value = Case> {
    let answer = prop::option::of(prop::sample::select(vec!["", "ran", "two\n\nlines"]));
    let permission =
        prop::sample::select(vec![Permission::Allow, Permission::Allow, Permission::Ask, Permission::Deny]);
    let generation = prop::sample::select(vec![Generation::Old, Generation::New]);
    let world = (vec(answer, 1..4), vec(any::<bool>(), 1..4), permission, generation, any::<bool>());
    (vec(step(), 1..8), vec(next(), 0..5), world).prop_map(
        |(steps, nexts, (answers, approvals, permission, generation, is_in_thread))| Case {
            steps,
            nexts,
            answers,
            approvals,
            permission,
            generation,
            is_in_thread,
        },
    )
}

/// A page that plays a case.
struct Player {
    server: TestServer,
    page: Page,
    approvals: VecDeque<bool>,
    is_in_thread: bool,
    messages: usize,
    /// The input of the last run.
    last: Value,
}

impl Player {
    async fn run(&mut self, resume: Option<Value>) -> AguiStream {
        let mut input = self.page.input();
        if let Some(resume) = resume {
            input["resume"] = resume;
        }
        self.send(input).await
    }

    /// Where an input is sent to; of a thread, a new run, which the input names from now on.
    async fn place(&self, input: &mut Value) -> String {
        if !self.is_in_thread {
            return "/agui".to_owned();
        }
        let thread = format!("/api/v1/rooms/default/agui/{}", self.page.thread);
        let made = self.server.post(&thread, json!({})).await;
        input["runId"] = made.body["run_id"].clone();
        format!("{thread}/{}", made.body["run_id"].as_str().unwrap())
    }

    /// Sends an input, reads what comes to its end, and answers questions until there are no more.
    async fn send(&mut self, mut input: Value) -> AguiStream {
        let path = self.place(&mut input).await;
        let mut stream = AguiStream::open(self.server.request(Method::POST, &path), &input).await;
        stream.last().await;
        if self.is_in_thread {
            assert_eq!(self.server.get(&path).await.body["events"], json!(stream.seen()));
        }
        if input["resume"].is_array() {
            // What an earlier run has told is not told again.
            let known = json!(self.page.messages).to_string();
            for begun in stream.seen().iter().filter(|event| event["type"].as_str().unwrap().ends_with("_START")) {
                let id = begun.get("toolCallId").unwrap_or(&begun["messageId"]).as_str().unwrap();
                assert!(!known.contains(id), "{begun}");
            }
        }
        self.last = input;
        let interrupts = stream.interrupts();
        self.page.take(stream.seen());
        if interrupts.is_empty() {
            return stream;
        }
        let answers: Vec<Value> = interrupts.iter().map(|interrupt| self.answer(interrupt)).collect();
        Box::pin(self.run(Some(json!(answers)))).await
    }

    /// Sends an input, and leaves after so many events. A run of a thread goes on to an end that is told as well.
    async fn leave(&mut self, after: usize) {
        let mut input = self.page.input();
        let path = self.place(&mut input).await;
        let mut stream = AguiStream::open(self.server.request(Method::POST, &path), &input).await;
        for _ in 0..after {
            if stream.try_next().await.is_none() {
                break;
            }
        }
        drop(stream);
        if self.is_in_thread {
            let finished = async || self.server.get(&path).await.body["finished"].is_string();
            until("a run whose reader has left is over", finished).await;
            let events = self.server.get(&path).await.body["events"].clone();
            let mut rules = Rules::new(&input);
            let all = events.as_array().unwrap().iter().try_for_each(|event| rules.take(event));
            all.and_then(|()| rules.end()).unwrap();
        }
        // Questions of a turn that nobody follows, however often it asks, are not in the way of what comes next.
        until("the turn is over", async || {
            for ask in self.server.asks().await {
                self.server.reply(&ask, json!({ "reply": "reject" })).await;
            }
            self.server.status(&self.page.thread).await == "idle"
        })
        .await;
    }

    fn answer(&mut self, interrupt: &Value) -> Value {
        let approved = self.approvals.pop_front().unwrap_or_default();
        self.approvals.push_back(approved);
        resolved(interrupt, json!({ "approved": approved }))
    }

    /// The calls since the user said something that nobody has answered.
    fn open_calls(&self) -> Vec<String> {
        let of_message = |message: &Value| message["toolCalls"].as_array().cloned().unwrap_or_default();
        let since = self.page.messages.rsplit(|message| message["role"] == "user").next().unwrap_or_default();
        let calls = since.iter().flat_map(of_message).map(|call| call["id"].clone());
        let is_open = |call: &Value| !self.page.messages.iter().any(|message| message["toolCallId"] == *call);
        calls.filter(is_open).map(|call| call.as_str().unwrap().to_owned()).collect()
    }

    fn say(&mut self) {
        self.messages += 1;
        self.page.say(&format!("u{}", self.messages), "go on");
    }

    async fn play(&mut self, next: &Next) {
        let open = self.open_calls();
        match next {
            Next::Repeat => {
                let again = self.last.clone();
                // What it tells is known, or replaces what is known: the page begins from there.
                let known: Vec<Value> = serde_json::from_value(again["messages"].clone()).unwrap();
                self.page.messages = known;
                self.send(again).await;
            }
            Next::Leave { after } => {
                self.say();
                self.leave(*after).await;
                self.run(None).await;
            }
            Next::Answer { leaves_out } if open.len() > *leaves_out => {
                open.iter().skip(*leaves_out).for_each(|call| self.page.answer(call, "answered"));
                self.run(None).await;
            }
            Next::Say { answers: true } => {
                open.iter().for_each(|call| self.page.answer(call, "answered"));
                self.say();
                self.run(None).await;
            }
            Next::Answer { .. } | Next::Say { .. } => {
                self.say();
                self.run(None).await;
            }
        }
    }
}

async fn play(case: Case) {
    let model = RandomModel(Arc::new(Mutex::new(case.steps.into())));
    let extensions = Extensions { models: vec![(PROVIDER.to_owned(), Arc::new(model))], ..Extensions::default() };
    let change = |config: &mut handback_server::config::Config| {
        config.model = ModelRef::parse(MODEL).unwrap();
        permit(config, case.permission);
    };
    let server = TestServer::with_extensions(change, extensions).await;
    let mut answers = case.answers.into_iter().cycle();
    let answer = move |_: &Value| Some(answers.next().flatten().map_or_else(|| failure("no luck"), success));
    let client = ScriptedClient::attach(&server, "tab", &["t", "u"], answer).await;
    let mut page = Page::speaking("t", case.generation);
    if case.is_in_thread {
        let made = server.post("/api/v1/rooms/default/agui", json!({})).await;
        page.thread = made.body["thread_id"].as_str().unwrap().to_owned();
    }
    page.more = json!({ "forwardedProps": { "clientID": "tab" } });
    let (approvals, is_in_thread) = (case.approvals.into(), case.is_in_thread);
    let mut player = Player { server, page, approvals, is_in_thread, messages: 0, last: json!(null) };
    player.say();
    player.run(None).await;
    for next in &case.nexts {
        player.play(next).await;
    }
    // Whatever has happened, nothing is left under way.
    assert_ne!(player.server.status(&player.page.thread).await, "busy");
    assert_eq!(player.server.counts().calls, 0);
    drop(client);
    player.server.stop().await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn every_stream_keeps_the_rules(case in case()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(play(case));
    }
}
