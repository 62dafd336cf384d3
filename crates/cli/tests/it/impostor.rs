//! A server that answers as a test wants.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

/// What is answered.
pub(crate) enum Answer {
    /// A status, and a body of JSON.
    Whole(u16, String),
    /// Events, after which the connection stays open.
    Events(String),
    /// Nothing, and the connection stays open.
    Silence,
}

/// Starts a server that answers a path without its query; gives its URL, and the paths that are asked for.
pub(crate) fn impostor(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (sender, asked) = channel();
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let (answer, sender, socket) = (Arc::clone(&answer), sender.clone(), socket.unwrap());
            std::thread::spawn(move || {
                let path = path(&socket);
                sender.send(path.clone()).ok();
                give(&socket, answer(&path));
            });
        }
    });
    (url, asked)
}

/// Reads the head of a request; gives its path.
fn path(socket: &TcpStream) -> String {
    let mut lines = BufReader::new(socket).lines().map(Result::unwrap);
    let first = lines.next().unwrap();
    lines.find(String::is_empty).unwrap();
    let target = first.split(' ').nth(1).unwrap();
    target.split('?').next().unwrap().to_owned()
}

fn give(mut socket: &TcpStream, answer: Answer) {
    match answer {
        Answer::Whole(status, body) => {
            let length = body.len();
            let head =
                format!("HTTP/1.1 {status} Answer\r\nContent-Type: application/json\r\nContent-Length: {length}");
            socket.write_all(format!("{head}\r\nConnection: close\r\n\r\n{body}").as_bytes()).ok();
            return;
        }
        Answer::Events(events) => {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close";
            socket.write_all(format!("{head}\r\n\r\n{events}").as_bytes()).ok();
        }
        Answer::Silence => {}
    }
    // It stays open until the other side closes it.
    BufReader::new(socket).lines().for_each(drop);
}
