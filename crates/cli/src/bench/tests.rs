//! The parts that read what a server sends, fed in every way that a network may cut it; and whole runs against
//! servers that misbehave.

#![expect(clippy::disallowed_methods, reason = "a test's server ends with the test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use futures_util::{SinkExt, StreamExt};
use indicatif::ProgressBar;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;

use super::Errors;
use super::clients::{self, Transport};
use super::events::Events;
use super::http::{Chunks, Connection, Failure, Framing, Head, Target};
use super::load::{self, Plan};
use super::metrics::ProcessMetrics;
use super::report::thousands;
use super::socket::Socket;

const STREAM: &str = "event: tool-request\ndata: {\"type\":\"client-tool-request\",\"requestID\":\"a\",\"tool\":\"t\"}\nid: 1-1\n\n\
    event: ping\ndata: \n\n: a comment\n\nevent: tool-cancel\ndata: {\"requestID\":\"a\",\"reason\":\"r\"}\n\n\
    event: tool-request\r\ndata: {\"requestID\":\"b\\\"c\"}\r\n\r\n";
const REQUESTS: [&str; 2] = [r#""a""#, r#""b\"c""#];

#[test]
fn the_calls_of_a_stream_are_read_however_it_is_cut() -> anyhow::Result<()> {
    for cut in 0..=STREAM.len() {
        let mut events = Events::default();
        events.feed(&STREAM.as_bytes()[..cut])?;
        events.feed(&STREAM.as_bytes()[cut..])?;
        assert_eq!(events.requests.iter().map(AsRef::as_ref).collect::<Vec<&str>>(), REQUESTS, "cut at {cut}");
    }
    Ok(())
}

#[test]
fn a_request_without_an_id_is_an_error() {
    let fed = Events::default().feed(b"event: tool-request\ndata: {}\n\n");
    assert!(matches!(fed, Err(Failure::Malformed("a request without an id"))), "{fed:?}");
}

#[test]
fn chunks_are_joined_however_they_are_cut() -> anyhow::Result<()> {
    let body = b"5\r\nhello\r\n1;name=\"x\"\r\n,\r\n0a\r\n wide\r\nwor\r\n2\r\nld\r\n0\r\nTrailer: x\r\n\r\n";
    for cut in 0..=body.len() {
        let (mut chunks, mut data) = (Chunks::default(), Vec::new());
        chunks.decode(&body[..cut], |piece| data.extend_from_slice(piece))?;
        assert_eq!(chunks.ended(), cut == body.len(), "cut at {cut}");
        chunks.decode(&body[cut..], |piece| data.extend_from_slice(piece))?;
        assert!(chunks.ended());
        assert_eq!(String::from_utf8_lossy(&data), "hello, wide\r\nworld", "cut at {cut}");
    }
    Ok(())
}

#[test]
fn chunks_that_make_no_sense_are_errors() {
    for body in ["x\r\n", "2\r\nabc", "ffffffffffffffffff\r\n", "0\r\n\r\nmore"] {
        let decoded = Chunks::default().decode(body.as_bytes(), |_| {});
        assert!(matches!(decoded, Err(Failure::Malformed(_))), "{body:?}: {decoded:?}");
    }
}

#[test]
fn heads_tell_how_their_body_ends() -> anyhow::Result<()> {
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
        let expected = Head { status, size: text.len(), framing, closes };
        assert_eq!(Head::parse(format!("{text}body").as_bytes())?, Some(expected), "{text:?}");
        assert_eq!(Head::parse(&text.as_bytes()[..text.len() - 1])?, None, "{text:?}");
    }
    assert!(Head::parse(b"SMTP ready\r\n\r\n").is_err());
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
fn numbers_are_grouped() {
    assert_eq!([0.4, 999.0, 1_000.0, 1_234_567.0].map(thousands), ["0", "999", "1,000", "1,234,567"]);
}

#[tokio::test]
async fn urls_that_cannot_be_measured_are_refused() -> anyhow::Result<()> {
    for (url, token, reason) in [
        ("https://127.0.0.1", None, "https is not supported"),
        ("127.0.0.1:4096", None, "is no http:// URL"),
        ("http://127.0.0.1:1", Some("a\r\nb"), "no header can carry"),
    ] {
        let Err(error) = Target::resolve(url, token).await else { bail!("{url} was taken") };
        assert!(error.to_string().contains(reason), "{error}");
    }
    Ok(())
}

#[tokio::test]
async fn requests_carry_the_path_the_host_and_the_token() -> anyhow::Result<()> {
    let target = Target::resolve("http://127.0.0.1:4096/base/", Some("key")).await?;
    let expected = "POST /base/x HTTP/1.1\r\nHost: 127.0.0.1:4096\r\nAuthorization: Bearer key\r\n\
        Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
    assert_eq!(String::from_utf8(target.post("/x", "{}"))?, expected);
    Ok(())
}

/// Listens on a free port.
async fn listen() -> anyhow::Result<(TcpListener, Arc<Target>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let target = Target::resolve(&format!("http://{}", listener.local_addr()?), None).await?;
    Ok((listener, Arc::new(target)))
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
    let (listener, target) = listen().await?;
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
    let mut connection = Connection::default();
    let request = target.get("/", "*/*");
    for expected in [(200, "one"), (201, "two"), (200, "three"), (200, "four")] {
        let (status, body) = connection.exchange(&target, &request).await?;
        assert_eq!((status, std::str::from_utf8(body)?), expected);
    }
    let cut_short = connection.exchange(&target, &request).await;
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
                    answer = (200, r#"{"status":"success","title":"","output":"ok"}"#);
                } else if request.starts_with("POST /client-tools/result") {
                    let expected = r#","result":{"status":"success","title":"","output":"ok"}}"#;
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
    let (listener, target) = listen().await?;
    let server = tokio::spawn(slow_floor(listener, 10));
    let errors = Arc::new(Errors::default());
    let bar = ProgressBar::hidden();

    let crowd = clients::connect(&target, Transport::Sse, 3, &errors, &bar).await;
    assert_eq!(crowd.tools.len(), 3);
    let plan = Plan { concurrency: 1, warmup: Duration::ZERO, duration: Duration::from_secs(1) };
    let load = load::run(&target, &crowd.tools, &plan, &errors, &bar).await?;

    assert_eq!(load.latencies.len(), 10);
    assert_eq!(load.server_cpu_seconds, None);
    let errors = errors.take();
    assert_eq!(errors.keys().collect::<Vec<_>>(), ["execute: HTTP 503 UNAVAILABLE"]);
    server.abort();
    Ok(())
}

#[tokio::test]
async fn clients_that_cannot_connect_are_counted() -> anyhow::Result<()> {
    let (listener, target) = listen().await?;
    drop(listener);
    let errors = Arc::new(Errors::default());
    let crowd = clients::connect(&target, Transport::Sse, 70, &errors, &ProgressBar::hidden()).await;
    assert!(crowd.tools.is_empty());
    assert_eq!(errors.take().into_values().collect::<Vec<_>>(), [70]);
    Ok(())
}

#[tokio::test]
async fn a_socket_registers_answers_and_names_what_is_refused() -> anyhow::Result<()> {
    let (listener, target) = listen().await?;
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
    let errors = Arc::new(Errors::default());
    Socket::open(&target, "c").await?.serve(errors.clone()).await;

    let expected = r#"{"type":"result","requestID":"r1","result":{"status":"success","title":"","output":"ok"}}"#;
    assert_eq!(server.await??, expected);
    let named: Vec<String> = errors.take().into_keys().collect();
    assert_eq!(
        named,
        ["result: refused: CONFLICT", "result: refused: INVALID_REQUEST", "socket: closed by the server"]
    );
    Ok(())
}
