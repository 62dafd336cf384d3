//! What one client can do to the others with what it sends: the longest wait of somebody else, and the memory that it takes.
//! The requests are those of an attacker: schemas and inputs that are made to keep a validator busy, and large bodies.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::http::ask;
use crate::process::Binaries;
use crate::scenario::{Peer, Store};

/// The longest that somebody else may wait because of one request.
pub(crate) const LONGEST: Duration = Duration::from_millis(20);

/// What all of it may take, in bytes.
pub(crate) const MEMORY: u64 = 64 << 20;

/// How often each attack is made; the median of its longest waits counts.
pub(crate) const ROUNDS: usize = 5;

/// Between two requests of the one who waits.
const PULSE: Duration = Duration::from_micros(500);

/// How much a body may hold.
const BODY: usize = 4_000_000;

/// What came of an attack.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) what: &'static str,
    /// The status of each request.
    pub(crate) statuses: Vec<u16>,
    /// The longest wait of somebody else in each round.
    pub(crate) waits: Vec<Duration>,
    /// The most memory that the server had, less what it began with, in bytes.
    pub(crate) memory: u64,
}

impl Outcome {
    /// The median over the rounds: that a machine shared with others stops for a moment is not the server's doing.
    pub(crate) fn wait(&self) -> Duration {
        let mut waits = self.waits.clone();
        waits.sort();
        waits[waits.len() / 2]
    }
}

struct Attack {
    what: &'static str,
    requests: Vec<(&'static str, String)>,
}

/// Attacks a fresh server with that store, again and again.
pub(crate) fn measure(binaries: &Binaries, store: Store) -> anyhow::Result<Vec<Outcome>> {
    let server = binaries.start(Peer::Handback(store))?;
    let address = server.url.trim_start_matches("http://").to_owned();
    let (idle, attacks) = (server.memory("VmRSS")?, attacks());
    let mut outcomes: Vec<Outcome> = Vec::new();
    for attack in &attacks {
        let mut outcome = Outcome { what: attack.what, statuses: Vec::new(), waits: Vec::new(), memory: 0 };
        for _ in 0..ROUNDS {
            server.forget_peak()?;
            let (statuses, wait) = disturb(&address, &attack.requests).with_context(|| attack.what.to_owned())?;
            outcome.memory = outcome.memory.max(server.memory("VmHWM")?.saturating_sub(idle));
            outcome.statuses = statuses;
            outcome.waits.push(wait);
        }
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

/// Makes the requests while somebody else asks for something small. Returns what was answered, and how long they waited.
fn disturb(address: &str, requests: &[(&str, String)]) -> anyhow::Result<(Vec<u16>, Duration)> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let pulse = scope.spawn(|| {
            let mut longest = Duration::ZERO;
            while !is_over.load(Ordering::Relaxed) {
                let began = Instant::now();
                let status = ask(address, "GET /healthz", "")?;
                ensure!(status == 200, "/healthz answered {status}");
                longest = longest.max(began.elapsed());
                std::thread::sleep(PULSE);
            }
            Ok(longest)
        });
        let statuses: anyhow::Result<Vec<u16>> =
            requests.iter().map(|(path, body)| ask(address, &format!("POST {path}"), body)).collect();
        is_over.store(true, Ordering::Relaxed);
        let wait = pulse.join().map_err(|_| anyhow::anyhow!("the one who waits has failed"))??;
        Ok((statuses?, wait))
    })
}

fn register(tool: &str, schema: &Value) -> (&'static str, String) {
    let body = json!({ "clientID": "hostile", "tools": [{ "id": tool, "parameters": schema }] });
    ("/client-tools/register", body.to_string())
}

fn execute(tool: &str, input: &Value) -> (&'static str, String) {
    let body = json!({ "toolID": format!("client_hostile_{tool}"), "input": input, "wait": false });
    ("/client-tools/execute", body.to_string())
}

/// Definitions of which each refers twice to the next.
fn doubling(keyword: &str, pointer: &str) -> Value {
    let next = |n: u32| json!({ "$ref": format!("{pointer}/n{}", n + 1) });
    let mut all: serde_json::Map<String, Value> =
        (0..60).map(|n| (format!("n{n}"), json!({ keyword: [next(n), next(n)] }))).collect();
    all.insert("n60".into(), json!({ "required": ["never"] }));
    all.into()
}

fn attacks() -> Vec<Attack> {
    let attack = |what, requests: Vec<(&'static str, String)>| Attack { what, requests };
    let one = json!({ "a": 1 });
    let mut chain: serde_json::Map<String, Value> =
        (0..721).map(|n| (format!("d{n}"), json!({ "$ref": format!("#/$defs/d{}", n + 1) }))).collect();
    chain.insert("d721".into(), json!({ "properties": { "a": {} } }));
    let chain = json!({ "$ref": "#/$defs/d0", "unevaluatedProperties": false, "$defs": chain });
    let circle = json!({ "$ref": "#/$defs/x", "$defs": {
        "x": { "allOf": [{ "$ref": "#/$defs/y" }] },
        "y": { "not": { "$ref": "#/$defs/z" } },
        "z": { "if": { "$ref": "#/$defs/w" } },
        "w": { "properties": { "a": { "$ref": "#/$defs/x" } } },
    } });
    let deep = (0..126).fold(json!({}), |inner, _| json!({ "a": inner }));
    let encoded = json!({ "$ref": "#/%24defs/n0", "$defs": doubling("allOf", "#/%24defs") });
    let names = json!({ "propertyNames": { "$ref": "#/$defs/n0" }, "$defs": doubling("anyOf", "#/$defs") });
    let embedded = json!({ "properties": { "a": {
        "$id": "urn:inner", "$ref": "#/$defs/n0", "$defs": doubling("oneOf", "#/$defs"),
    } } });
    let pattern = |pattern: &str| json!({ "properties": { "a": { "pattern": pattern } } });
    let text = |text: &str| json!({ "a": text.repeat(200_000 / text.len()) });
    let tool = |n: usize| {
        let patterns =
            (0..64).map(|m| (format!("p{m}"), json!({ "pattern": format!("^[a-z]{{{m}}}(x|y{n})*[^q]+$") })));
        json!({ "id": format!("t{n}"), "parameters": { "properties": Value::from_iter(patterns) } })
    };
    let tools = json!({ "clientID": "many", "tools": (0..128).map(tool).collect::<Vec<_>>() });
    let wide = |n: usize| (format!("p{n}"), json!({ "enum": [n, "x".repeat(32)], "not": { "const": n } }));
    let wide = json!({ "properties": Value::from_iter((0..800).map(wide)), "required": (0..500).map(|n| format!("p{n}")).collect::<Vec<_>>() });
    let unique = json!({ "properties": { "a": { "uniqueItems": true } } });
    let objects: Vec<Value> = (0..20_000).map(|n| json!({ "k": n })).collect();
    let empties = format!("[{}[]]", "[],".repeat(BODY / 3));
    let flood = format!(r#"{{"toolID":"client_hostile_h","input":{{"a":{empties}}},"wait":false}}"#);
    let schema = format!(r#"{{"clientID":"hostile","tools":[{{"id":"s","parameters":{{"enum":{empties}}}}}]}}"#);
    let state = format!(
        r#"{{"threadId":"t","runId":"r","messages":[],"tools":[],"context":[],"state":{empties},"forwardedProps":{{}}}}"#
    );
    let props = format!(
        r#"{{"threadId":"t","runId":"r","messages":[],"tools":[],"context":[],"state":{{}},"forwardedProps":{{"a":{empties}}}}}"#
    );
    let chat = format!(
        r#"{{"id":"c","messages":[{{"id":"m","role":"user","metadata":{empties},"parts":[{{"type":"text","text":"hello"}}]}}]}}"#
    );
    let history = format!(
        r#"{{"id":"c","messages":[{{"id":"m","role":"user","parts":[{{"type":"text","text":"hello"}}]}},{{"id":"n","role":"assistant","parts":[{{"type":"tool-x","toolCallId":"k","state":"output-available","input":{{}},"output":{empties}}}]}}]}}"#
    );
    let branches: Vec<Value> = (0..3_400).map(|_| json!({ "contains": false })).collect();
    let branches = json!({ "properties": { "a": { "anyOf": branches } } });
    let groups = json!({ "properties": { "a": { "items": {
        "pattern": format!("\\1(?:{}){{0}}", "()".repeat(4_000)),
    } } } });
    let base = json!({ "$id": format!("http://h/{}/", "x".repeat(32_000)),
        "allOf": (0..2_000).map(|n| json!({ "$id": format!("{n}") })).collect::<Vec<_>>() });
    let objects_of_one = format!("[{}0]", r#"{"":0},"#.repeat(BODY / 7));
    let metadata = format!(r#"{{"requestID":"none","status":"success","metadata":{{"a":{objects_of_one}}}}}"#);
    let keys = format!(r#"{{{}"title":5}}"#, r#""a":0,"#.repeat(BODY / 6));
    vec![
        attack("`unevaluatedProperties` behind 721 references", vec![register("a", &chain), execute("a", &one)]),
        attack("a circle through `properties`, an input 127 deep", vec![register("b", &circle), execute("b", &deep)]),
        attack("2^60 subschemas by percent-encoded pointers", vec![register("c", &encoded), execute("c", &one)]),
        attack("2^60 subschemas in `propertyNames`", vec![register("d", &names), execute("d", &one)]),
        attack("2^60 subschemas in an embedded `$id`", vec![register("e", &embedded), execute("e", &one)]),
        attack(
            "`[ab]*a[ab]{900}c` on 200 kB",
            vec![register("f", &pattern("[ab]*a[ab]{900}c")), execute("f", &text("ab"))],
        ),
        attack("`^(a+)+$` on 200 kB", vec![register("g", &pattern("^(a+)+$")), execute("g", &text("a"))]),
        attack(
            "`(?=.*b)(?<=(a*)\\1)(?:aa?)*$` on 200 kB",
            vec![register("i", &pattern(r"(?=.*b)(?<=(a*)\1)(?:aa?)*$")), execute("i", &text("a"))],
        ),
        attack("128 tools with 64 patterns each", vec![("/client-tools/register", tools.to_string())]),
        attack("a schema of 60 kB with 800 properties", vec![register("j", &wide), execute("j", &one)]),
        attack(
            "20,000 different items, `uniqueItems`",
            vec![register("h", &unique), execute("h", &json!({ "a": objects }))],
        ),
        attack(
            "3,400 times `contains` on 30 kB",
            vec![register("k", &branches), execute("k", &json!({ "a": ["x".repeat(30_000)] }))],
        ),
        attack(
            "4,000 groups and a back-reference on 4,000 items",
            vec![register("l", &groups), execute("l", &json!({ "a": vec![""; 4_000] }))],
        ),
        attack("60,000 braces that count nothing", vec![register("m", &pattern(&format!("{}}}", "{".repeat(60_000))))]),
        attack("2,000 addresses below one of 32 kB", vec![register("n", &base)]),
        attack("600,000 objects as metadata of a result", vec![("/client-tools/result", metadata)]),
        attack("600,000 keys and a title of the wrong type", vec![("/session", keys)]),
        attack("4 MB of empty lists as an input", vec![("/client-tools/execute", flood)]),
        attack("4 MB of empty lists as a schema", vec![("/client-tools/register", schema)]),
        attack("4 MB of empty lists as AG-UI state", vec![("/agui", state)]),
        attack("4 MB of empty lists as AG-UI properties", vec![("/agui", props)]),
        attack("4 MB of empty lists as metadata of a chat", vec![("/api/chat", chat)]),
        attack("4 MB of empty lists as an output in a chat", vec![("/api/chat", history)]),
    ]
}
