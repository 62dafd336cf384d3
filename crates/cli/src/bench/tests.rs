//! The parts that read what a server sends, fed in every way that a network may cut it; and whole runs against
//! servers that misbehave.

#![expect(clippy::disallowed_methods, reason = "a test's server ends with the test")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, bail};
use futures_util::{SinkExt, StreamExt};
use handback_client::Transport;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;

use super::clients::{self, EventParser, OUTPUT, Socket, open_events, serve_events, tool};
use super::http::{Connection, Failure, Framing, Head, Target};
use super::load::{self, Plan};
use super::metrics::ProcessMetrics;
use super::readers::{self, Reading};
use super::run::Run;
use super::sessions::judge;

const STREAM: &str = "event: tool-request\ndata: {\"type\":\"client-tool-request\",\"requestID\":\"a\",\"tool\":\"t\"}\nid: 1-1\n\n\
    event: ping\ndata: \n\n: a comment\n\nevent: tool-cancel\ndata: {\"requestID\":\"a\",\"reason\":\"r\"}\n\n\
    event: tool-request\r\ndata: {\"requestID\":\"b\\\"c\"}\r\n\r\n";
const REQUESTS: [&str; 2] = [r#""a""#, r#""b\"c""#];

#[test]
fn the_calls_of_a_stream_are_read_however_it_is_cut() -> anyhow::Result<()> {
    for cut in 0..=STREAM.len() {
        let (mut parser, mut requests) = (EventParser::default(), Vec::new());
        for text in [&STREAM[..cut], &STREAM[cut..]] {
            parser.text.extend_from_slice(text.as_bytes());
            requests.extend(parser.parse(|request| request.request_id.get().to_owned())?);
        }
        assert_eq!(requests, REQUESTS, "cut at {cut}");
    }
    Ok(())
}

#[test]
fn a_request_without_an_id_is_an_error() {
    let mut parser = EventParser::default();
    parser.text.extend_from_slice(b"event: tool-request\ndata: {}\n\n");
    let parsed = parser.parse(|_| {});
    assert!(matches!(parsed, Err(Failure::Malformed("a request without an id"))), "{parsed:?}");
}

/// Reads a chunked body that a network cuts in two.
async fn read_chunks(body: &[u8], cut: usize) -> Result<Vec<u8>, Failure> {
    let (mut reader, mut data) = ((&body[..cut]).chain(&body[cut..]), Vec::new());
    while Framing::Chunked.read(&mut reader, &mut data).await? {}
    Ok(data)
}

#[tokio::test]
async fn chunks_are_joined_however_they_are_cut() -> anyhow::Result<()> {
    let body = b"5\r\nhello\r\n1;name=\"x\"\r\n,\r\n0a\r\n wide\r\nwor\r\n2\r\nld\r\n0\r\nTrailer: x\r\n\r\n";
    for cut in 0..=body.len() {
        let data = read_chunks(body, cut).await?;
        assert_eq!(String::from_utf8_lossy(&data), "hello, wide\r\nworld", "cut at {cut}");
        let cut_off = read_chunks(&body[..cut], 0).await;
        assert!(cut == body.len() || matches!(cut_off, Err(Failure::Closed)), "cut at {cut}: {cut_off:?}");
    }
    Ok(())
}

#[tokio::test]
async fn chunks_that_make_no_sense_are_errors() {
    for body in ["x\r\n", "2\r\nabcd", "ffffff\r\n", "ffffffffffffffffff\r\n"] {
        let decoded = read_chunks(body.as_bytes(), 0).await;
        assert!(matches!(decoded, Err(Failure::Malformed(_))), "{body:?}: {decoded:?}");
    }
}

#[tokio::test]
async fn bytes_after_an_answer_are_an_error() -> anyhow::Result<()> {
    let (listener, run) = listen().await?;
    event_floor(listener, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nmore");
    let answer = Connection::new(&run.target).get("/").await.map(<[u8]>::to_vec);
    assert!(matches!(answer, Err(Failure::Malformed("bytes after the answer"))), "{answer:?}");
    Ok(())
}

#[tokio::test]
async fn heads_tell_how_their_body_ends() -> anyhow::Result<()> {
    let cases = [
        ("HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n", 200, Framing::Length(12), false),
        (
            "HTTP/1.1 503 Service Unavailable\r\ncontent-length:0\r\nconnection: close\r\n\r\n",
            503,
            Framing::Length(0),
            true,
        ),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\ncontent-length: 3\r\n\r\n", 200, Framing::Chunked, false),
        ("HTTP/1.1 200 OK\r\n\r\n", 200, Framing::UntilClosed, true),
        ("HTTP/1.1 204 No Content\r\n\r\n", 204, Framing::Length(0), false),
    ];
    for (text, status, framing, closes) in cases {
        let answer = format!("{text}body");
        let mut reader = answer.as_bytes();
        assert_eq!(Head::read(&mut reader).await?, Head { status, framing, closes }, "{text:?}");
        assert_eq!(reader, b"body", "{text:?}");
        let cut_off = Head::read(&mut &text.as_bytes()[..text.len() - 1]).await;
        assert!(matches!(cut_off, Err(Failure::Closed)), "{text:?}: {cut_off:?}");
    }
    assert!(Head::read(&mut &b"SMTP ready\r\n\r\n"[..]).await.is_err());
    Ok(())
}

#[test]
fn metrics_are_found_among_others() {
    let text = "# TYPE process_cpu_seconds counter\nprocess_cpu_seconds_total 1.5\n\
        process_resident_memory_bytes_peak 9\nprocess_resident_memory_bytes{kind=\"rss\"} 2e6 1700000000\n";
    assert_eq!(ProcessMetrics::parse(text), Some(ProcessMetrics { cpu_seconds: 1.5, resident_bytes: 2e6 }));
    assert_eq!(ProcessMetrics::parse("process_cpu_seconds_total 1.5\n"), None);
}

#[test]
fn urls_that_cannot_be_measured_are_refused() -> anyhow::Result<()> {
    for (url, token, reason) in [
        ("https://127.0.0.1", None, "https is not supported"),
        ("127.0.0.1:4096", None, "is no http:// URL"),
        ("http://127.0.0.1:1", Some("a\r\nb"), "no header can carry"),
    ] {
        let Err(error) = Target::resolve(url, token) else { bail!("{url} was taken") };
        assert!(error.to_string().contains(reason), "{error}");
    }
    Ok(())
}

#[test]
fn requests_carry_the_path_the_host_and_the_token() -> anyhow::Result<()> {
    let target = Target::resolve("http://127.0.0.1:4096/base/", Some("key"))?;
    let expected = "POST /base/x HTTP/1.1\r\nHost: 127.0.0.1:4096\r\nAuthorization: Bearer key\r\n\
        Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
    assert_eq!(String::from_utf8(target.post("/x", "{}"))?, expected);
    Ok(())
}

/// Listens on a free port, for a run whose clients answer their calls.
async fn listen() -> anyhow::Result<(TcpListener, Arc<Run>)> {
    listen_for(None).await
}

/// The same for a run whose clients may hold their calls.
async fn listen_for(held: Option<AtomicU32>) -> anyhow::Result<(TcpListener, Arc<Run>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let target = Target::resolve(&format!("http://{}", listener.local_addr()?), None)?;
    let run = Run { target: Arc::new(target), held, shows_progress: false, errors: Mutex::default() };
    Ok((listener, Arc::new(run)))
}

/// Reads a request whose body has a length, if another one comes.
async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut request = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&request);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse::<usize>().ok());
            if body.len() >= length.unwrap_or_default() {
                return Some(text.into_owned());
            }
        }
        if stream.read_buf(&mut request).await.ok()? == 0 {
            return None;
        }
    }
}

/// Writes byte by byte, each in a packet of its own as far as the kernel lets it.
async fn trickle(stream: &mut TcpStream, text: &str) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    for byte in text.bytes() {
        stream.write_all(&[byte]).await?;
        tokio::task::yield_now().await;
    }
    Ok(())
}

#[tokio::test]
async fn a_connection_is_kept_until_the_server_ends_it() -> anyhow::Result<()> {
    let (listener, run) = listen().await?;
    let server = tokio::spawn(async move {
        let (mut first, _) = listener.accept().await?;
        for answer in [
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none",
            "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n2\r\ntw\r\n1\r\no\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nthree",
        ] {
            read_request(&mut first).await.context("no request")?;
            trickle(&mut first, answer).await?;
        }
        let (mut second, _) = listener.accept().await?;
        read_request(&mut second).await.context("no request")?;
        trickle(&mut second, "HTTP/1.1 200 OK\r\n\r\nfour").await?;
        drop(second);
        let (mut third, _) = listener.accept().await?;
        read_request(&mut third).await.context("no request")?;
        trickle(&mut third, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfi").await
    });
    let mut connection = Connection::new(&run.target);
    for expected in ["one", "two", "three", "four"] {
        assert_eq!(std::str::from_utf8(connection.get("/").await?)?, expected);
    }
    let cut_short = connection.get("/").await;
    assert!(matches!(cut_short, Err(Failure::Closed)), "{cut_short:?}");
    server.await?
}

/// A server that hands calls over, byte by byte, until `limit` of them are done, and then answers 503.
async fn slow_floor(listener: TcpListener, limit: usize) -> anyhow::Result<()> {
    let (offer, offers) = tokio::sync::mpsc::unbounded_channel::<usize>();
    let (finish, finished) = tokio::sync::mpsc::unbounded_channel::<()>();
    let (offers, finished) = (Arc::new(tokio::sync::Mutex::new(offers)), Arc::new(tokio::sync::Mutex::new(finished)));
    let calls = Arc::new(AtomicUsize::new(0));
    loop {
        let (mut stream, _) = listener.accept().await?;
        let (offer, offers, finish, finished) = (offer.clone(), offers.clone(), finish.clone(), finished.clone());
        let calls = calls.clone();
        tokio::spawn(async move {
            while let Some(request) = read_request(&mut stream).await {
                let mut answer = (200, "{}");
                if request.starts_with("GET /client-tools/pending/") {
                    let head =
                        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
                    trickle(&mut stream, head).await?;
                    while let Some(id) = offers.lock().await.recv().await {
                        let frame = format!("event: tool-request\ndata: {{\"requestID\":\"{id}\"}}\n\n");
                        trickle(&mut stream, &format!("{:x}\r\n{frame}\r\n", frame.len())).await?;
                    }
                } else if request.starts_with("GET /metrics") {
                    answer = (404, "");
                } else if request.starts_with("POST /client-tools/execute") && calls.load(Ordering::Relaxed) == limit {
                    answer = (503, r#"{"error":"too much","code":"UNAVAILABLE"}"#);
                } else if request.starts_with("POST /client-tools/execute") {
                    offer.send(calls.fetch_add(1, Ordering::Relaxed))?;
                    finished.lock().await.recv().await.context("nobody answers")?;
                    answer = (200, r#"{"status":"success","title":"","output":"fn main() {}"}"#);
                } else if request.starts_with("POST /client-tools/result") {
                    let expected = r#","result":{"status":"success","title":"","output":"fn main() {}"}}"#;
                    anyhow::ensure!(request.ends_with(expected), "{request}");
                    finish.send(())?;
                }
                let (status, body) = answer;
                trickle(&mut stream, &format!("HTTP/1.1 {status} \r\nContent-Length: {}\r\n\r\n{body}", body.len()))
                    .await?;
            }
            anyhow::Ok(())
        });
    }
}

#[tokio::test]
async fn a_run_counts_its_calls_and_names_its_errors() -> anyhow::Result<()> {
    let (listener, run) = listen().await?;
    let server = tokio::spawn(slow_floor(listener, 10));
    let (clients, _serving) = clients::connect(&run, Transport::Sse, 3).await;
    assert_eq!(clients.len(), 3);
    let plan = Plan { concurrency: 1, warmup: Duration::ZERO, duration: Duration::from_secs(1), turns: false };
    let load = load::run(&run, &clients, &plan).await?;

    assert_eq!([&load.json["calls"], &load.json["serverCpuUsPerCall"]], [&json!(10), &Value::Null]);
    assert_eq!(run.take_errors().keys().collect::<Vec<_>>(), ["execute: HTTP 503 UNAVAILABLE"]);
    server.abort();
    Ok(())
}

#[tokio::test]
async fn clients_that_cannot_connect_are_counted() -> anyhow::Result<()> {
    let (listener, run) = listen().await?;
    drop(listener);
    let (clients, _serving) = clients::connect(&run, Transport::Sse, 70).await;
    assert!(clients.is_empty());
    assert_eq!(run.take_errors().into_values().collect::<Vec<_>>(), [70]);
    Ok(())
}

#[tokio::test]
async fn a_socket_registers_answers_and_names_what_is_refused() -> anyhow::Result<()> {
    let (listener, run) = listen().await?;
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await?;
        let mut socket = tokio_tungstenite::accept_async(stream).await?;
        let register = socket.next().await.context("closed")??.into_text()?;
        anyhow::ensure!(register.starts_with(r#"{"type":"register","tools":[{"id":"read_file","#), "{register}");
        socket.send(Message::text(r#"{"type":"registered","toolIDs":["x"]}"#)).await?;
        socket.send(Message::text(r#"{"type":"request","request":{"requestID":"r1","tool":"x"}}"#)).await?;
        let answer = socket.next().await.context("closed")??.into_text()?;
        for text in [
            r#"{"type":"result","requestID":"r1","accepted":true}"#,
            r#"{"type":"result","requestID":"r1","accepted":false,"code":"CONFLICT"}"#,
            r#"{"type":"error","error":"no","code":"INVALID_REQUEST"}"#,
        ] {
            socket.send(Message::text(text)).await?;
        }
        socket.close(None).await?;
        anyhow::Ok(answer.to_string())
    });
    Socket::open(&run, "c").await?.serve(run.clone()).await;

    let expected =
        r#"{"type":"result","requestID":"r1","result":{"status":"success","title":"","output":"fn main() {}"}}"#;
    assert_eq!(server.await??, expected);
    let named: Vec<String> = run.take_errors().into_keys().collect();
    assert_eq!(
        named,
        ["result: refused: CONFLICT", "result: refused: INVALID_REQUEST", "socket: closed by the server"]
    );
    Ok(())
}

#[tokio::test]
async fn a_client_that_holds_its_calls_counts_them_and_says_nothing() -> anyhow::Result<()> {
    let held = |run: &Run| run.held.as_ref().map(|held| held.load(Ordering::Relaxed));
    let (listener, run) = listen_for(Some(AtomicU32::new(0))).await?;
    assert!(tool(&run).contains(r#""timeout":600000,"#), "{}", tool(&run));
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await?;
        let mut socket = tokio_tungstenite::accept_async(stream).await?;
        socket.next().await.context("closed")??;
        for text in [
            r#"{"type":"registered","toolIDs":["x"]}"#,
            r#"{"type":"request","request":{"requestID":"r1","tool":"x"}}"#,
            r#"{"type":"request","request":{"requestID":"r2","tool":"x"}}"#,
        ] {
            socket.send(Message::text(text)).await?;
        }
        socket.close(None).await?;
        let mut said = Vec::new();
        while let Some(Ok(message)) = socket.next().await {
            said.push(message);
        }
        said.retain(|message| !message.is_close());
        anyhow::Ok(said)
    });
    Socket::open(&run, "c").await?.serve(run.clone()).await;
    let said = server.await??;
    assert_eq!((said, held(&run)), (Vec::new(), Some(2)));

    let (listener, run) = listen_for(Some(AtomicU32::new(0))).await?;
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await?;
        read_request(&mut stream).await.context("no request")?;
        let text = format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n{STREAM}");
        stream.write_all(text.as_bytes()).await?;
        let (mut registering, _) = listener.accept().await?;
        read_request(&mut registering).await.context("no request")?;
        registering.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").await?;
        anyhow::Ok(listener)
    });
    let stream = open_events(&run, &mut Connection::new(&run.target), "c").await?;
    serve_events(stream, run.clone()).await;
    assert_eq!(held(&run), Some(2));
    // Nobody came to post a result.
    let listener = server.await??;
    assert!(futures_util::FutureExt::now_or_never(listener.accept()).is_none());
    Ok(())
}

#[test]
fn a_turn_counts_only_if_its_answer_quotes_the_tool() {
    let answer = |error: &str, kind: &str, text: &str| {
        let part = format!(r#"{{"type":"step-start","id":"a"}},{{"type":"{kind}","id":"b","text":"{text}"}}"#);
        let body = format!(r#"{{"info":{{"role":"assistant"{error}}},"parts":[{part}]}}"#);
        judge(body.as_bytes()).map_err(|failure| failure.to_string())
    };
    let quoted = format!("The tool `read_file` answered: {OUTPUT}");
    let failed = |reason: &str| format!("The tool `read_file` failed: The call was not made: {reason}");
    let error = r#","error":{"name":"MessageAbortedError","data":{"message":"The turn was aborted"}}"#;
    let expected = |text: &str| Err(text.to_owned());
    assert_eq!(answer("", "text", &quoted), Ok(()));
    assert_eq!(answer(error, "text", &quoted), expected("refused: MessageAbortedError"));
    assert_eq!(answer("", "reasoning", &quoted), expected("the answer does not quote the tool: "));
    assert_eq!(
        answer("", "text", "I am the scripted demo model."),
        expected("the answer does not quote the tool: I am the scripted demo model.")
    );
    assert_eq!(
        answer("", "text", &failed("too many calls for this client; try again in 1 s")),
        expected(
            "the server refuses calls beyond limits.callsPerMinute; start it with HANDBACK_LIMITS_CALLS_PER_MINUTE=0"
        )
    );
    assert_eq!(
        answer("", "text", &failed("too many calls are under way; try again later")),
        expected(
            "the server refuses calls beyond limits.callsPerClient; start it with HANDBACK_LIMITS_CALLS_PER_CLIENT=100000"
        )
    );
    assert!(matches!(judge(b"{}"), Err(Failure::Malformed("an answer that is no message"))));
}

/// A server of sessions: counts the turns of each, in the order in which they were made, with whose it is.
async fn session_floor(listener: TcpListener, turns: Arc<Mutex<Vec<(String, usize)>>>) -> anyhow::Result<()> {
    loop {
        let (mut stream, _) = listener.accept().await?;
        let turns = turns.clone();
        tokio::spawn(async move {
            while let Some(request) = read_request(&mut stream).await {
                let (head, body) = request.split_once("\r\n\r\n").context("no body")?;
                let (status, body) = if head.starts_with("POST /session ") {
                    let mut turns = turns.lock().map_err(|_| anyhow::anyhow!("poisoned"))?;
                    let made: serde_json::Value = serde_json::from_str(body)?;
                    turns.push((made["clientID"].to_string(), 0));
                    (200, format!(r#"{{"id":"{}","title":"New session"}}"#, turns.len() - 1))
                } else if let Some(rest) = head.strip_prefix("POST /session/") {
                    let (session, _) = rest.split_once("/message ").context("no turn")?;
                    let said = r#"{"parts":[{"type":"text","text":"call read_file {\"path\":\"src/main.rs\"}"}]}"#;
                    anyhow::ensure!(body == said, "{body}");
                    turns.lock().map_err(|_| anyhow::anyhow!("poisoned"))?[session.parse::<usize>()?].1 += 1;
                    let text = format!(r#"{{"type":"text","text":"It says: {OUTPUT}"}}"#);
                    (200, format!(r#"{{"info":{{"role":"assistant"}},"parts":[{text}]}}"#))
                } else {
                    (404, String::new())
                };
                let answer = format!("HTTP/1.1 {status} \r\nContent-Length: {}\r\n\r\n{body}", body.len());
                stream.write_all(answer.as_bytes()).await?;
            }
            anyhow::Ok(())
        });
    }
}

#[tokio::test]
async fn workers_take_a_fresh_session_of_the_next_client_after_twenty_turns() -> anyhow::Result<()> {
    let (listener, run) = listen().await?;
    let turns = Arc::new(Mutex::new(Vec::new()));
    let server = tokio::spawn(session_floor(listener, turns.clone()));
    let clients = ["a", "b", "c"].map(str::to_owned);
    let plan = Plan { concurrency: 1, warmup: Duration::ZERO, duration: Duration::from_millis(500), turns: true };
    let load = load::run(&run, &clients, &plan).await?;
    server.abort();

    assert_eq!(run.take_errors(), BTreeMap::new());
    let mut turns = turns.lock().map_err(|_| anyhow::anyhow!("poisoned"))?.clone();
    // The last turn is answered when time is up, and does not count.
    assert_eq!(
        load.json["turns"].as_u64().context("no turns")? as usize + 1,
        turns.iter().map(|(_, count)| count).sum::<usize>()
    );
    assert!(turns.len() > 4, "{turns:?}");
    turns.truncate(4);
    let expected = [("\"a\"", 20), ("\"b\"", 20), ("\"c\"", 20), ("\"a\"", 20)];
    assert_eq!(turns, expected.map(|(client, count)| (client.to_owned(), count)));
    Ok(())
}

/// A server of events: answers every stream so, and closes it. Returns the first lines of what it is asked for.
fn event_floor(listener: TcpListener, answer: &'static str) -> Arc<Mutex<Vec<String>>> {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let kept = asked.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let asked = asked.clone();
            tokio::spawn(async move {
                while let Some(request) = read_request(&mut stream).await {
                    let line = request.split(" HTTP").next().unwrap_or_default().to_owned();
                    let is_creation = line == "POST /session";
                    asked.lock().map_err(|_| anyhow::anyhow!("poisoned"))?.push(line);
                    if !is_creation {
                        stream.write_all(answer.as_bytes()).await?;
                        break;
                    }
                    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n{\"id\":\"ses_1\"}").await?;
                }
                anyhow::Ok(())
            });
        }
    });
    kept
}

#[tokio::test]
async fn readers_count_what_they_get_and_one_that_is_cut_off_is_an_error() -> anyhow::Result<()> {
    let clients = ["a".to_owned()];
    let cases =
        [(Reading::Everything, &["GET /event"][..]), (Reading::Others, &["POST /session", "GET /session/ses_1/event"])];
    for (reading, requests) in cases {
        let (listener, run) = listen().await?;
        let asked = event_floor(listener, "HTTP/1.1 200 OK\r\n\r\ndata: {}\n\n");
        let mut readers = readers::open(&run, reading, 2, &clients).await?;
        while readers.streams.join_next().await.is_some() {}
        assert_eq!(readers.bytes.load(Ordering::Relaxed), 2 * 10, "{reading:?}");
        assert_eq!(run.take_errors(), BTreeMap::from([("reader: closed by the server".to_owned(), 2)]));
        let asked = asked.lock().map_err(|_| anyhow::anyhow!("poisoned"))?.clone();
        assert_eq!(asked, [requests, requests].concat());
    }
    Ok(())
}

#[tokio::test]
async fn a_server_without_the_events_of_one_session_is_named_as_such() -> anyhow::Result<()> {
    let (listener, run) = listen().await?;
    event_floor(listener, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    let opened = readers::open(&run, Reading::Others, 2, &["a".to_owned()]).await;
    let Err(error) = opened else { bail!("it opened") };
    let expected = "reader 1 of 2 cannot open its stream: the server has no GET /session/ses_1/event";
    assert_eq!(format!("{error:#}"), expected);
    Ok(())
}
