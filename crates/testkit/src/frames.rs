//! What readers of streams have in common: frames taken from a real socket byte by byte, and what was read in lines.

use reqwest::Response;
use serde_json::Value;
use tokio::time::timeout;

use crate::server::PATIENCE;
use crate::tidy::Tidier;

/// The frames of a response, which end with an empty line (LF alone: some readers know no other).
pub(crate) struct Frames {
    response: Response,
    unread: Vec<u8>,
}

impl Frames {
    pub(crate) fn of(response: Response) -> Self {
        Self { response, unread: Vec::new() }
    }

    /// The next frame without the empty line that ends it, comments left out; `None` when the stream is over.
    pub(crate) async fn next(&mut self) -> Option<String> {
        loop {
            let frame = self.next_of_any_kind().await?;
            if !frame.starts_with(':') {
                return Some(frame);
            }
        }
    }

    /// The next frame or comment.
    pub(crate) async fn next_of_any_kind(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.unread.windows(2).position(|bytes| bytes == b"\n\n") {
                let frame: Vec<u8> = self.unread.drain(..end + 2).take(end).collect();
                return Some(String::from_utf8(frame).expect("the stream is text"));
            }
            let piece = timeout(PATIENCE, self.response.chunk()).await.expect("the stream goes on in time");
            match piece.expect("the stream is not cut") {
                Some(piece) => self.unread.extend_from_slice(&piece),
                None => {
                    assert_eq!(self.unread, b"", "the last frame is complete");
                    return None;
                }
            }
        }
    }
}

impl Frames {
    /// The frames up to where the stream is cut, comments left out.
    pub(crate) async fn until_cut(&mut self) -> Vec<String> {
        while let Ok(Some(piece)) =
            timeout(PATIENCE, self.response.chunk()).await.expect("the stream goes on or is cut in time")
        {
            self.unread.extend_from_slice(&piece);
        }
        let rest = String::from_utf8(std::mem::take(&mut self.unread)).expect("the stream is text");
        rest.split_terminator("\n\n").filter(|frame| !frame.starts_with(':')).map(str::to_owned).collect()
    }
}

/// What was read, one line each: the type and the other fields, ids numbered, pieces that follow each other as one.
pub(crate) fn lines(read: &[Value], tidier: &mut Tidier) -> Vec<String> {
    let mut joined = Vec::<Value>::new();
    for next in read {
        let grows = |key: &str| next[key].as_str().zip(joined.last().filter(|last| continues(last, next)));
        let whole = ["delta", "inputTextDelta"].into_iter().find_map(|key| {
            let (delta, before) = grows(key)?;
            Some((key, format!("{}{delta}", before[key].as_str()?)))
        });
        match (whole, joined.last_mut()) {
            (Some((key, whole)), Some(last)) => last[key] = whole.into(),
            _ => joined.push(next.clone()),
        }
    }
    let Value::Array(tidied) = tidier.tidy(&Value::Array(joined)) else { return Vec::new() };
    tidied.into_iter().map(line).collect()
}

/// Whether something is the next piece of the same.
fn continues(last: &Value, next: &Value) -> bool {
    ["type", "id", "messageId", "toolCallId"].into_iter().all(|key| last[key] == next[key])
}

fn line(mut read: Value) -> String {
    let kind = read["type"].take();
    let fields = read.as_object_mut().expect("what is read is an object");
    fields.remove("type");
    let kind = kind.as_str().expect("what is read has a type");
    if fields.is_empty() { kind.to_owned() } else { format!("{kind} {read}") }
}
