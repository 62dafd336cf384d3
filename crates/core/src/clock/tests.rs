use super::*;

#[test]
fn ids_that_are_made_later_sort_later() {
    let clock = Clock::system();
    let ids: Vec<MessageId> = (0..10_000).map(|_| clock.message_id()).collect();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
    assert!(ids[0].as_str().starts_with("msg_"), "{}", ids[0]);
    assert_eq!(ids[0].as_str().len(), 23);
}

#[test]
fn call_ids_sort_by_their_time_and_name_their_shard() {
    let clock = Clock::system();
    let first = clock.request_id(SHARDS - 1);
    let before = clock.time();
    while clock.time() <= before {
        std::hint::spin_loop();
    }
    let second = clock.request_id(0);
    assert!(first < second, "{first} {second}");
    assert_eq!((named_by(&first), named_by(&second)), (Some(SHARDS - 1), Some(0)));
}

#[test]
fn every_letter_behind_the_shard_of_a_call_id_is_random() {
    let clock = Clock::system();
    let ids: Vec<RequestId> = (0..2_000).map(|_| clock.request_id(7)).collect();
    for place in SHARD_LETTERS.end..23 {
        let letters: std::collections::HashSet<u8> = ids.iter().map(|id| id.as_str().as_bytes()[place]).collect();
        assert_eq!(letters.len(), ALPHABET.len(), "at {place}");
    }
}
