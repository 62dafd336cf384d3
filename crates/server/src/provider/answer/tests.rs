use std::time::Duration;

use handback_core::store::StopReason;

use super::*;

/// Takes the data of events for text; `END` is the end.
struct Plain;

impl Decode for Plain {
    fn read(&mut self, data: &str, events: &mut EventQueue) -> Result<(), Fault> {
        events.push(match data {
            "END" => ModelEvent::Stop(StopReason::Stop),
            text => ModelEvent::Text(text.to_owned()),
        });
        Ok(())
    }

    fn is_done(&self) -> bool {
        false
    }

    fn end(&mut self, _events: &mut EventQueue) {}
}

/// What is read of a body whose pieces come after so many seconds each, and after how many seconds it is over.
async fn read(pieces: &'static [(u64, &'static str)]) -> (Vec<String>, u64) {
    let began = Instant::now();
    let body = stream::iter(pieces).then(|(seconds, text)| async move {
        tokio::time::sleep(Duration::from_secs(*seconds)).await;
        Ok::<_, std::io::Error>(Bytes::from_static(text.as_bytes()))
    });
    let response = axum::http::Response::new(reqwest::Body::wrap_stream(body));
    let bounds = RequestBounds::default();
    let mut answer = EventReader::new(response.into(), bounds, began + bounds.whole, Plain);
    let mut seen = Vec::new();
    loop {
        match answer.next().await {
            Ok(Some(ModelEvent::Text(text))) => seen.push(text),
            Ok(Some(event)) => seen.push(format!("{event:?}")),
            Ok(None) => break,
            Err(fault) => {
                seen.push(fault.to_string());
                break;
            }
        }
    }
    (seen, began.elapsed().as_secs())
}

#[tokio::test(start_paused = true)]
async fn a_model_may_think_for_long_before_its_first_byte_but_not_after() {
    let (seen, seconds) = read(&[(299, "data: a\n\n"), (59, "data: END\n\n")]).await;
    assert_eq!((seen, seconds), (vec!["a".to_owned(), "Stop(Stop)".to_owned()], 358));
    let (seen, seconds) = read(&[(301, "data: a\n\n")]).await;
    assert_eq!((seen, seconds), (vec!["sent nothing for 300 s".to_owned()], 300));
    let (seen, seconds) = read(&[(1, "data: a\n\n"), (61, "data: END\n\n")]).await;
    assert_eq!((seen, seconds), (vec!["a".to_owned(), "sent nothing for 60 s".to_owned()], 61));
}

#[tokio::test(start_paused = true)]
async fn bytes_of_any_kind_end_a_silence() {
    let pieces = &[(1, "data: a\n\n"), (59, ": still here\n\n"), (59, "da"), (59, "ta: b\n"), (59, "\ndata: END\n\n")];
    let (seen, seconds) = read(pieces).await;
    assert_eq!((seen, seconds), (vec!["a".to_owned(), "b".to_owned(), "Stop(Stop)".to_owned()], 237));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_goes_on_for_ever_is_ended() {
    let (seen, seconds) = read(&[(58, "data: a\n\n"); 100]).await;
    let mut expected = vec!["a".to_owned(); 62];
    expected.push("was not done after 3600 s".to_owned());
    assert_eq!((seen, seconds), (expected, 3600));
}

#[tokio::test(start_paused = true)]
async fn comments_alone_are_waited_for_no_longer_than_for_a_first_event() {
    let comments = &[(50, ": still here\n\n"); 100];
    assert_eq!(read(comments).await, (vec!["sent nothing for 300 s".to_owned()], 300));
    // Nor is one that does not end.
    assert_eq!(read(&[(50, ":"); 100]).await, (vec!["sent nothing for 300 s".to_owned()], 300));
}

#[tokio::test(start_paused = true)]
async fn comments_after_an_event_are_waited_for_five_stalls() {
    const COMMENT: (u64, &str) = (50, ": still here\n\n");
    const DATA: (u64, &str) = (49, "data: a\n\n");
    let (seen, seconds) = read(&[DATA, COMMENT, COMMENT, COMMENT, COMMENT, COMMENT, DATA, COMMENT, COMMENT]).await;
    assert_eq!((seen, seconds), (vec!["a".to_owned(), "a".to_owned(), "cut its answer short".to_owned()], 448));
    let (seen, seconds) = read(&[DATA, COMMENT, COMMENT, COMMENT, COMMENT, COMMENT, COMMENT, COMMENT]).await;
    assert_eq!((seen, seconds), (vec!["a".to_owned(), "sent nothing for 300 s".to_owned()], 349));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_read_after_the_end() {
    let (seen, seconds) = read(&[(1, "data: END\n\ndata: a\n\n"), (59, "data: b\n\n")]).await;
    assert_eq!((seen, seconds), (vec!["Stop(Stop)".to_owned()], 1));
}
