use super::*;
use crate::error::Refusal;

fn refused(status: u16, retry_after: Option<Duration>) -> Error {
    let message = format!("refused with {status}");
    Error::Refused(Box::new(Refusal { status, code: None, message, body: None, retry_after }))
}

#[tokio::test(start_paused = true)]
async fn what_passes_is_tried_again_for_a_minute() {
    let began = Instant::now();
    let mut patience = Patience::new();
    let given_up = loop {
        if let Err(error) = patience.after(refused(503, None)).await {
            break error;
        }
    };
    assert_eq!(given_up.to_string(), "refused with 503; given up after 60 s");
    assert!((60..=65).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn what_does_not_pass_is_not() {
    let began = Instant::now();
    let Err(refusal) = Patience::new().after(refused(404, None)).await else { panic!("it is final") };
    assert_eq!((refusal.status(), began.elapsed()), (Some(404), Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_time_gets_it() {
    let began = Instant::now();
    Patience::new().after(refused(429, Some(Duration::from_secs(20)))).await.unwrap();
    assert_eq!(began.elapsed().as_secs(), 20);
}
