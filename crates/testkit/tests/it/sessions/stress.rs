//! Many sessions of many clients, with prompts, aborts, deletes, asks, and clients that drop and return, all at random.
//! Every prompt gets an answer, no call is run twice, and nothing is left.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use fastrand::Rng;
use handback_core::calls::Counts;
use handback_core::tools::{Permission, ToolPattern};
use handback_server::config::Config;
use handback_testkit::session::{permit, text_prompt};
use handback_testkit::{Answer, Scratch, TestServer};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

const CLIENTS: usize = 20;
const SESSIONS_EACH: usize = 10;
/// What each client's user does.
const STEPS: usize = 60;
/// A turn may take this long; with more it hangs.
const LONGEST_TURN: Duration = Duration::from_secs(20);

/// What everybody has seen, to be compared in the end.
#[derive(Default)]
struct Ledger {
    /// Which client was given a call, and how often as which attempt.
    given: HashMap<String, (String, Vec<u64>)>,
    /// Calls that a client has run; it remembers them, as the SDKs do.
    run: HashMap<String, usize>,
    /// How often a result was taken for the first time.
    taken: HashMap<String, usize>,
    /// How prompts ended.
    ended: HashMap<String, usize>,
    asks: HashMap<String, usize>,
    wrong: Vec<String>,
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Ledger>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.0.lock().unwrap()
    }

    fn wrong(&self, what: String) {
        self.lock().wrong.push(what);
    }
}

/// `asked` has to be allowed, everything else may be called; nothing waits for long.
fn settings(config: &mut Config, data: Option<PathBuf>) {
    config.data = data;
    permit(config, Permission::Allow);
    let agent = config.agents.get_mut("default").unwrap();
    agent.permission.tools.insert(ToolPattern::parse("client_*_asked").unwrap(), Permission::Ask);
    config.client_tools.default_timeout = Duration::from_millis(700);
    config.client_tools.approval_timeout = Duration::from_millis(400);
    config.limits.calls_per_minute = 0;
    config.limits.unconnected_tools = Duration::from_millis(500);
}

/// A client that connects again and again and answers what it is given, each call once, until it is told to stop.
async fn client(server: Arc<TestServer>, name: String, mut random: Rng, ledger: Shared, stop: CancellationToken) {
    let mut results: HashMap<String, Value> = HashMap::new();
    while !stop.is_cancelled() {
        server.register(&name, &["plain", "asked"]).await;
        let grace = if random.u8(0..3) > 0 { "?grace=1000" } else { "" };
        let mut stream = server.stream(&format!("{name}{grace}")).await;
        let ends = Instant::now() + Duration::from_millis(random.u64(100..1500));
        loop {
            let frame = tokio::select! {
                frame = tokio::time::timeout_at(ends, stream.read()) => frame,
                () = stop.cancelled() => break,
            };
            let Ok(Ok(frame)) = frame else { break };
            if frame.event != "tool-request" {
                continue;
            }
            let request = frame.request_id().to_owned();
            {
                let mut ledger = ledger.lock();
                let given = ledger.given.entry(request.clone()).or_insert_with(|| (name.clone(), Vec::new()));
                let right = given.0 == name;
                given.1.push(frame.data["attempt"].as_u64().unwrap());
                if !right {
                    ledger.wrong.push(format!("{request} was given to two clients"));
                }
            }
            // It may go in the middle, and be asked again.
            if random.u8(0..25) == 0 {
                break;
            }
            let known = results.entry(request.clone()).or_insert_with(|| {
                *ledger.lock().run.entry(request.clone()).or_default() += 1;
                let output = format!("{} {}", frame.data["sessionID"].as_str().unwrap(), frame.data["input"]["n"]);
                match random.u8(0..6) {
                    0 => json!({ "status": "error", "error": output }),
                    _ => json!({ "status": "success", "output": output }),
                }
            });
            // Some calls are never answered.
            if random.u8(0..30) == 0 {
                continue;
            }
            let answer = server.post("/client-tools/result", json!({ "requestID": request, "result": known })).await;
            let first = answer.body["success"] == true && answer.body["ignored"] != true;
            let mut ledger = ledger.lock();
            if first {
                *ledger.taken.entry(request).or_default() += 1;
            } else if ![200, 404, 409, 410].contains(&answer.status) {
                ledger.wrong.push(format!("a result was answered {answer:?}"));
            }
        }
    }
}

/// Answers asks, most of them, until it is told to stop.
async fn approver(server: Arc<TestServer>, mut random: Rng, ledger: Shared, stop: CancellationToken) {
    while !stop.is_cancelled() {
        for ask in server.asks().await {
            let (by_session, word) = (random.bool(), ["once", "once", "always", "reject", ""][random.usize(0..5)]);
            if word.is_empty() {
                continue;
            }
            let answer = match by_session {
                true => server.respond(&ask, json!({ "response": word })).await,
                false => server.reply(&ask, json!({ "reply": word })).await,
            };
            match answer.status {
                200 => *ledger.lock().asks.entry(word.to_owned()).or_default() += 1,
                404 => {}
                _ => ledger.wrong(format!("an answer to an ask was answered {answer:?}")),
            }
        }
        sleep(Duration::from_millis(random.u64(1..30))).await;
    }
}

/// What one user does in the sessions of one client.
struct User {
    server: Arc<TestServer>,
    client: String,
    sessions: Vec<String>,
    random: Rng,
    ledger: Shared,
    count: u64,
    prompts: JoinSet<()>,
}

impl User {
    async fn act(&mut self) {
        let place = self.random.usize(0..self.sessions.len());
        let session = self.sessions[place].clone();
        match self.random.u8(0..20) {
            0 | 1 => {
                let answer = Answer::to(self.server.request(Method::POST, &format!("/session/{session}/abort"))).await;
                if (answer.status, &answer.body) != (200, &json!(true)) {
                    self.ledger.wrong(format!("an abort was answered {answer:?}"));
                }
            }
            2 => {
                let answer = Answer::to(self.server.request(Method::DELETE, &format!("/session/{session}"))).await;
                if answer.status != 200 {
                    self.ledger.wrong(format!("a delete was answered {answer:?}"));
                }
                self.sessions[place] = self.server.session_of(&self.client).await;
            }
            3 => {
                let body = self.prompt();
                let answer = self.server.post(&format!("/session/{session}/prompt_async"), body).await;
                if ![204, 409].contains(&answer.status) {
                    self.ledger.wrong(format!("a prompt that nobody waits for was answered {answer:?}"));
                }
            }
            4 => sleep(Duration::from_millis(self.random.u64(0..50))).await,
            _ => {
                let body = self.prompt();
                let request = self.server.saying(&session, &body);
                let (ledger, leaves) = (self.ledger.clone(), self.random.u8(0..15) == 0);
                let patience = if leaves { Duration::from_millis(self.random.u64(0..80)) } else { LONGEST_TURN };
                self.prompts.spawn(async move {
                    let end = match timeout(patience, Answer::to(request)).await {
                        Ok(answer) => sensible(&session, &answer),
                        Err(_) if leaves => Ok("left"),
                        Err(_) => Err("a prompt was never answered".to_owned()),
                    };
                    match end {
                        Ok(end) => *ledger.lock().ended.entry(end.to_owned()).or_default() += 1,
                        Err(wrong) => ledger.wrong(wrong),
                    }
                });
                if self.random.bool() {
                    sleep(Duration::from_millis(self.random.u64(0..20))).await;
                }
            }
        }
    }

    /// One to four calls, which the scripted model makes as they are written.
    fn prompt(&mut self) -> Value {
        let mut lines = Vec::new();
        for _ in 0..self.random.usize(1..5) {
            self.count += 1;
            let tool = ["plain", "plain", "asked", "nobody"][self.random.usize(0..4)];
            lines.push(format!("call {tool} {{\"n\":{}}}", self.count));
        }
        text_prompt(&lines.join("\n"))
    }
}

/// How a prompt ended, if that makes sense.
fn sensible(session: &str, answer: &Answer) -> Result<&'static str, String> {
    let info = &answer.body["info"];
    match answer.status {
        409 => return Ok("queue full"),
        404 => return Ok("deleted"),
        200 => {}
        _ => return Err(format!("a prompt was answered {answer:?}")),
    }
    if info["sessionID"] != session || info["role"] != "assistant" || info["time"]["completed"].is_null() {
        return Err(format!("a prompt was answered with another message: {answer:?}"));
    }
    match info["error"]["name"].as_str() {
        None if info["finish"] == "stop" => Ok("answered"),
        Some("MessageAbortedError") => Ok("aborted"),
        _ => Err(format!("a turn ended as {answer:?}")),
    }
}

/// What is wrong with the messages of a session in which nothing goes on any more.
async fn unfinished(server: &TestServer, session: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut users = HashSet::new();
    let messages = server.messages(session).await;
    for message in &messages {
        let info = &message["info"];
        if info["role"] == "user" {
            users.insert(info["id"].as_str().unwrap());
            continue;
        }
        if info["time"]["completed"].is_null() || !users.contains(info["parentID"].as_str().unwrap()) {
            wrong.push(format!("{info} is not complete, or answers nothing"));
        }
        for part in message["parts"].as_array().unwrap().iter().filter(|part| part["type"] == "tool") {
            let state = &part["state"];
            let own = |text: &Value| text == format!("{session} {}", state["input"]["n"]).as_str();
            match state["status"].as_str().unwrap() {
                "completed" if own(&state["output"]) => {}
                "error" => {}
                _ => wrong.push(format!("a call is left as, or was answered with, {part}")),
            }
        }
    }
    let answered: HashSet<&str> = messages.iter().filter_map(|message| message["info"]["parentID"].as_str()).collect();
    wrong.extend(users.difference(&answered).map(|user| format!("{user} was never answered")));
    wrong
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_under_any_load_answer_every_prompt_and_leave_nothing() {
    let seed =
        std::env::var("STRESS_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    println!("STRESS_SEED={seed}");
    let mut random = Rng::with_seed(seed);
    let (scratch, on_disk) = (Scratch::new(), random.bool());
    let data = on_disk.then(|| scratch.path().to_owned());
    let server = Arc::new(TestServer::with(|config| settings(config, data)).await);
    let (ledger, stop) = (Shared::default(), CancellationToken::new());
    let mut helpers = JoinSet::new();
    let mut users = JoinSet::new();
    helpers.spawn(approver(server.clone(), random.fork(), ledger.clone(), stop.clone()));
    for number in 0..CLIENTS {
        let name = format!("client{number}");
        helpers.spawn(client(server.clone(), name.clone(), random.fork(), ledger.clone(), stop.clone()));
        let mut sessions = Vec::new();
        for _ in 0..SESSIONS_EACH {
            sessions.push(server.session_of(&name).await);
        }
        let (random, prompts) = (random.fork(), JoinSet::new());
        let mut user =
            User { server: server.clone(), client: name, sessions, random, ledger: ledger.clone(), count: 0, prompts };
        users.spawn(async move {
            for _ in 0..STEPS {
                user.act().await;
            }
            user.prompts.join_all().await;
            user.sessions
        });
    }
    let sessions: Vec<String> = users.join_all().await.concat();
    assert_eq!(sessions.len(), CLIENTS * SESSIONS_EACH);
    // What nobody waits for ends as well.
    let idle = async || {
        server.get("/session/status").await.body.as_object().unwrap().values().all(|status| status["type"] == "idle")
    };
    handback_testkit::server::until("all sessions are idle", idle).await;
    stop.cancel();
    helpers.join_all().await;
    server.until("nothing is left", |counts| counts == Counts::default()).await;

    let mut wrong = ledger.lock().wrong.clone();
    assert_eq!(server.asks().await, Vec::<Value>::new());
    let listed = server.get("/session").await.body;
    let listed: HashSet<&str> =
        listed.as_array().unwrap().iter().map(|session| session["id"].as_str().unwrap()).collect();
    assert_eq!(listed, sessions.iter().map(String::as_str).collect(), "seed {seed}");
    for session in &sessions {
        wrong.extend(unfinished(&server, session).await);
    }
    let ledger = ledger.lock();
    for (request, (_, attempts)) in &ledger.given {
        // Each offer is a new attempt: the same one twice would be run twice.
        if !attempts.is_sorted_by(|earlier, later| earlier < later) {
            wrong.push(format!("{request} was offered as {attempts:?}"));
        }
    }
    wrong.extend(
        ledger.run.iter().filter(|(_, times)| **times > 1).map(|(request, _)| format!("{request} was run twice")),
    );
    wrong.extend(
        ledger.taken.iter().filter(|(_, times)| **times > 1).map(|(request, _)| format!("{request} was taken twice")),
    );
    println!("on disk: {on_disk}; {} calls; prompts {:?}; asks {:?}", ledger.given.len(), ledger.ended, ledger.asks);
    assert!(wrong.is_empty(), "seed {seed}: {} wrong: {:#?}", wrong.len(), &wrong[..wrong.len().min(20)]);
    for end in ["answered", "aborted", "left"] {
        assert!(ledger.ended.contains_key(end), "seed {seed}: no prompt was {end}: {:?}", ledger.ended);
    }
    for word in ["once", "always", "reject"] {
        assert!(ledger.asks.contains_key(word), "seed {seed}: no ask was answered {word}: {:?}", ledger.asks);
    }
}
