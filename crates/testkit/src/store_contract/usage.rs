//! How much is kept, as quotas count it.

use std::sync::Arc;

use handback_core::store::{IfFull, Message, Session, StorageUsed, Store};

use super::samples::{client_id, events, raw, run, session, session_id, text_part, user};

/// What is added to a session counts at least this much for each thing.
const LARGE: usize = 10_000;

async fn usage(store: &Arc<dyn Store>, client: &str) -> StorageUsed {
    store.usage(Some(&client_id(client))).await.unwrap()
}

async fn keep(store: &Arc<dyn Store>, id: &str, client: Option<&str>) {
    let kept = Session { client: client.map(client_id), ..session(id) };
    store.save_session(&Arc::new(kept), IfFull::Fails).await.unwrap();
}

fn large() -> String {
    "x".repeat(LARGE)
}

fn message(id: &str, parts: usize) -> Arc<Message> {
    let parts = (0..parts).map(|number| text_part(&format!("prt_{number}"), &large())).collect();
    Arc::new(Message { parts, ..user("ses_1", id) })
}

/// Checks that as much was added or taken away as so many large things take, for the client and in all alike.
#[track_caller]
fn must_differ(before: StorageUsed, after: StorageUsed, things: i64) {
    let differences = [(before.bytes, after.bytes), (before.client_bytes, after.client_bytes)];
    for difference in differences.map(|(before, after)| after.cast_signed() - before.cast_signed()) {
        // What goes with them is small.
        let rest = difference - things * LARGE as i64;
        assert!(rest.abs() < LARGE as i64 / 2, "{things} things: {difference}");
    }
}

/// Everything counts as long as it is there, once.
pub async fn sessions_and_bytes_are_counted(store: Arc<dyn Store>) {
    assert_eq!(usage(&store, "desk").await, StorageUsed::default());
    keep(&store, "ses_1", Some("desk")).await;
    let bare = usage(&store, "desk").await;
    assert_eq!((bare.client_sessions, bare.client_bytes), (1, bare.bytes));
    let mut before = bare;
    let mut must_change = async |things: i64| {
        let after = usage(&store, "desk").await;
        must_differ(before, after, things);
        before = after;
    };
    for (id, parts, things) in [("msg_1", 2, 2), ("msg_1", 2, 0), ("msg_1", 3, 1), ("msg_1", 1, -2), ("msg_2", 4, 4)] {
        store.save_message(&message(id, parts)).await.unwrap();
        must_change(things).await;
    }
    store.replace_from(&message("msg_2", 0)).await.unwrap();
    must_change(-4).await;
    let title = Session { client: Some(client_id("desk")), title: large(), ..session("ses_1") };
    store.save_session(&Arc::new(title), IfFull::Fails).await.unwrap();
    must_change(1).await;
    keep(&store, "ses_1", Some("desk")).await;
    must_change(-1).await;
    let mut made = run("ses_1", "run_1");
    store.save_run(&Arc::new(made.clone()), IfFull::Fails).await.unwrap();
    must_change(0).await;
    made.input = Some(raw(&format!("{{\"a\":\"{}\"}}", large())));
    store.save_run(&Arc::new(made), IfFull::Fails).await.unwrap();
    must_change(1).await;
    for (first, things) in [(0, 2), (1, 1), (0, 0)] {
        let told = events(&[&large(), &large()]);
        store.append_run_events(&session_id("ses_1"), &run("ses_1", "run_1").id, first, told).await.unwrap();
        must_change(things).await;
    }
    // What has no session is not kept, and does not count.
    store.save_message(&Arc::new(user("ses_2", "msg_1"))).await.unwrap();
    must_change(0).await;
    store.delete_session(&session_id("ses_1")).await.unwrap();
    assert_eq!(usage(&store, "desk").await, StorageUsed::default());
}

/// A session without a client counts in all only.
pub async fn what_changes_hands_is_counted_where_it_is(store: Arc<dyn Store>) {
    for (id, client) in [("ses_1", None), ("ses_2", Some("desk")), ("ses_3", Some("desk")), ("ses_4", Some("phone"))] {
        keep(&store, id, client).await;
    }
    store.save_message(&message("msg_1", 3)).await.unwrap();
    let all = store.usage(None).await.unwrap();
    assert_eq!((all.client_sessions, all.client_bytes), (0, 0));
    let counted = async |clients: [u64; 3]| {
        let mut bytes = 0;
        for (client, sessions) in ["desk", "phone", "watch"].into_iter().zip(clients) {
            let found = usage(&store, client).await;
            assert_eq!((found.client_sessions, found.client_bytes > 0), (sessions, sessions > 0), "{client}");
            bytes += found.client_bytes;
        }
        bytes
    };
    assert!(counted([2, 1, 0]).await < all.bytes - 3 * LARGE as u64);
    keep(&store, "ses_1", Some("watch")).await;
    // All of it is somebody's now.
    assert_eq!(counted([2, 1, 1]).await, store.usage(None).await.unwrap().bytes);
    keep(&store, "ses_1", Some("phone")).await;
    keep(&store, "ses_2", Some("phone")).await;
    assert_eq!(counted([1, 3, 0]).await, store.usage(None).await.unwrap().bytes);
    keep(&store, "ses_1", None).await;
    assert!(counted([1, 2, 0]).await < all.bytes - 3 * LARGE as u64);
    for id in ["ses_1", "ses_2", "ses_3", "ses_4"] {
        store.delete_session(&session_id(id)).await.unwrap();
    }
    counted([0, 0, 0]).await;
    assert_eq!(store.usage(None).await.unwrap(), StorageUsed::default());
}
