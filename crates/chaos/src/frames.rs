//! SSE frames that come late or twice, in their order.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, stream};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::weather::{Chance, Fault, Weather};

/// The largest frame that is treated as one; what is larger is passed on as it comes.
const LARGEST: usize = 16 * 1024 * 1024;

/// The frames of a stream, as they are let through.
pub(crate) fn through(weather: Arc<Weather>, body: Incoming) -> impl Stream<Item = Result<Bytes, hyper::Error>> {
    let chance = weather.chance();
    let frames = Frames { weather, chance, body, unread: BytesMut::new(), again: None };
    stream::unfold(frames, |mut frames| async move { Some((frames.next().await?, frames)) })
}

struct Frames {
    weather: Arc<Weather>,
    chance: Chance,
    body: Incoming,
    unread: BytesMut,
    /// The frame that was let through last and is about to come again.
    again: Option<Bytes>,
}

impl Frames {
    async fn next(&mut self) -> Option<Result<Bytes, hyper::Error>> {
        if let Some(frame) = self.again.take() {
            return Some(Ok(frame));
        }
        loop {
            if let Some(frame) = self.whole_frame() {
                self.befall(&frame).await;
                return Some(Ok(frame));
            }
            match self.body.frame().await {
                Some(Ok(read)) => self.unread.extend_from_slice(&read.into_data().unwrap_or_default()),
                Some(Err(error)) => return Some(Err(error)),
                None if self.unread.is_empty() => return None,
                None => return Some(Ok(self.unread.split().freeze())),
            }
        }
    }

    /// Everything up to the first empty line, if it is there.
    fn whole_frame(&mut self) -> Option<Bytes> {
        let end = self.unread.windows(2).position(|pair| pair == b"\n\n").map(|start| start + 2);
        let end = end.or_else(|| (self.unread.len() > LARGEST).then_some(self.unread.len()))?;
        Some(self.unread.split_to(end).freeze())
    }

    async fn befall(&mut self, frame: &Bytes) {
        if !self.weather.is_stormy() {
            return;
        }
        let plan = &self.weather.plan;
        if self.chance.happens(plan.message_repeat) {
            self.weather.note(Fault::FrameRepeated);
            self.again = Some(frame.clone());
        }
        if self.chance.happens(plan.message_delay) {
            self.weather.note(Fault::FrameDelayed);
            self.weather.pass_time(self.chance.time(plan.delay)).await;
        }
    }
}
