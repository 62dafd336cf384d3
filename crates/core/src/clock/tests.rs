use super::*;

#[test]
fn ids_that_are_made_later_sort_later() {
    let clock = Clock::system();
    let ids: Vec<MessageId> = (0..10_000).map(|_| clock.message_id()).collect();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
    assert!(ids[0].as_str().starts_with("msg_"), "{}", ids[0]);
    assert_eq!(ids[0].as_str().len(), 23);
}
