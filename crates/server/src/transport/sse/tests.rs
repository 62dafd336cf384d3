use std::task::Waker;

use super::*;

/// Says once what it has to say.
struct Once(Option<Next>);

impl FrameSource for Once {
    fn poll_frame(&mut self, _: &mut Context<'_>) -> Poll<Next> {
        self.0.take().map_or(Poll::Pending, Poll::Ready)
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_cut_although_its_source_says_so_once() {
    let mut body = response(Once(Some(Next::Cut)), KEEP_ALIVE, Duration::from_secs(60), None).into_body();
    let mut poll = || http_body::Body::poll_frame(Pin::new(&mut body), &mut Context::from_waker(Waker::noop()));
    assert!(poll().is_pending(), "what came before is written out first");
    assert!(matches!(poll(), Poll::Ready(Some(Err(_)))));
}
