//! Stores: the one suite for all of them, and what only those that last have to do.

mod faults;
mod files;
mod keeping;
mod killed;
mod lost;
mod postgres;
mod random;
mod versions;

use std::sync::Arc;

use handback_core::store::Store;
use handback_server::store::{Bounds, Sqlite};
use handback_testkit::Scratch;

/// A store in a new file.
fn sqlite(scratch: &Scratch) -> Sqlite {
    Sqlite::open(&scratch.join("handback.db"), Bounds::default()).unwrap()
}

mod in_memory {
    use handback_core::limits::Limits;
    use handback_core::store::Session;
    use handback_core::store::ThreadRun;
    use handback_core::store::{
        CallFilter, CallStore, IfFull, MemoryStore, Most, RunStore, SessionFilter, SessionStore,
    };
    use handback_testkit::store_contract;
    use handback_testkit::store_contract::samples::{events, finished, head, raw, request_id, run, session};

    use super::{Arc, Store};

    fn open() -> (Arc<dyn Store>, ()) {
        (Arc::new(MemoryStore::default()), ())
    }

    store_contract!(open);

    /// Ids of calls, each of them in another part of the store.
    fn apart(count: usize) -> impl Iterator<Item = String> {
        let letters = || "-0123456789ABCDEFGHIJ".chars();
        let places = letters().take(4).flat_map(move |first| letters().map(move |second| (first, second)));
        places.cycle().enumerate().map(|(number, (first, second))| format!("r{first}{second}{number}")).take(count)
    }

    #[tokio::test]
    async fn the_newest_calls_are_kept_wherever_they_are() {
        let all: Vec<String> = apart(300).collect();
        let of_all = |ids: &[String]| ids.iter().rev().cloned().collect::<Vec<_>>();
        let listed = async |store: &MemoryStore| {
            let calls = store.list_finished(&CallFilter::default(), None, Most::items(1_000)).await.unwrap();
            calls.items.iter().map(|(_, call)| call.head.request.to_string()).collect::<Vec<_>>()
        };
        let few = MemoryStore::new(&Limits { stored_calls: 100, ..Limits::default() });
        let light = MemoryStore::new(&Limits { stored_bytes: 10_000, ..Limits::default() });
        for id in &all {
            for store in [&few, &light] {
                store.finish(&finished(head(id, "desk", "ses_1")), IfFull::Fails).await.unwrap();
            }
        }
        assert_eq!(listed(&few).await, of_all(&all[200..]));
        assert!(few.finished(&request_id(&all[199])).await.unwrap().is_none());
        assert!(few.finished(&request_id(&all[200])).await.unwrap().is_some());
        let kept = listed(&light).await;
        assert!((5..100).contains(&kept.len()), "{}", kept.len());
        assert_eq!(kept, of_all(&all[all.len() - kept.len()..]));
    }

    #[tokio::test]
    async fn old_calls_take_no_room_though_new_ones_are_elsewhere() {
        let store = MemoryStore::new(&Limits { stored_calls: 100, ..Limits::default() });
        let mut old = Vec::new();
        for id in apart(50) {
            let call = finished(head(&id, "desk", "ses_1"));
            store.finish(&call, IfFull::Fails).await.unwrap();
            old.push(Arc::downgrade(&call));
        }
        for number in 0..5_000 {
            store.finish(&finished(head(&format!("r--{number}"), "desk", "ses_1")), IfFull::Fails).await.unwrap();
        }
        assert_eq!(old.iter().filter(|call| call.upgrade().is_some()).count(), 0);
    }

    #[tokio::test]
    async fn a_session_that_grows_makes_room_for_itself() {
        let store = MemoryStore::new(&Limits { stored_message_bytes: 8_192, ..Limits::default() });
        for id in ["ses_1", "ses_2"] {
            store.save_session(&Arc::new(session(id)), IfFull::Fails).await.unwrap();
        }
        let metadata = Some(raw(&format!("{{\"a\":\"{}\"}}", "x".repeat(7_000))));
        for metadata in [metadata.clone(), None, metadata] {
            store.save_session(&Arc::new(Session { metadata, ..session("ses_2") }), IfFull::Fails).await.unwrap();
            let list = store.list_sessions(&SessionFilter::default(), None, Most::items(10)).await.unwrap().items;
            assert_eq!(list.iter().map(|session| session.id.as_str()).collect::<Vec<_>>(), ["ses_2"]);
        }
        store.save_session(&Arc::new(session("ses_2")), IfFull::Fails).await.unwrap();
        store.save_session(&Arc::new(session("ses_1")), IfFull::Fails).await.unwrap();
        assert_eq!(store.list_sessions(&SessionFilter::default(), None, Most::items(10)).await.unwrap().items.len(), 2);
    }

    #[tokio::test]
    async fn runs_and_what_they_tell_make_room_for_themselves() {
        let limits = Limits { stored_message_bytes: 8_192, ..Limits::default() };
        let large = Some(raw(&format!("{{\"a\":\"{}\"}}", "x".repeat(6_000))));
        let with_input = Arc::new(ThreadRun { input: large, ..run("ses_2", "run_1") });
        let bare = Arc::new(run("ses_2", "run_1"));
        for (made, told) in [(&with_input, vec!["a"; 1]), (&bare, vec!["0123456789"; 150])] {
            let store = MemoryStore::new(&limits);
            let ids = async || {
                let list = store.list_sessions(&SessionFilter::default(), None, Most::items(10)).await.unwrap().items;
                list.iter().map(|session| session.id.to_string()).collect::<Vec<_>>()
            };
            for id in ["ses_1", "ses_2"] {
                store.save_session(&Arc::new(session(id)), IfFull::Fails).await.unwrap();
            }
            // Saved over and over it takes its room once.
            for _ in 0..20 {
                store.save_run(&bare, IfFull::Fails).await.unwrap();
                store.append_run_events(&bare.session, &bare.id, 0, events(&["a"])).await.unwrap();
            }
            assert_eq!(ids().await, ["ses_2", "ses_1"]);
            store.save_run(made, IfFull::Fails).await.unwrap();
            store.append_run_events(&made.session, &made.id, 1, events(&told)).await.unwrap();
            assert_eq!(ids().await, ["ses_2"]);
            assert_eq!(store.run_events(&made.session, &made.id, 1).await.unwrap(), events(&told));
            // Their room is free again once their session is gone.
            assert!(store.delete_session(&made.session).await.unwrap());
            for id in ["ses_1", "ses_2", "ses_3", "ses_4"] {
                store.save_session(&Arc::new(session(id)), IfFull::Fails).await.unwrap();
            }
            assert_eq!(ids().await.len(), 4);
        }
    }
}

mod in_sqlite {
    use handback_testkit::{Scratch, store_contract};

    use super::{Arc, Store, sqlite};

    fn open() -> (Arc<dyn Store>, Scratch) {
        let scratch = Scratch::new();
        (Arc::new(sqlite(&scratch)), scratch)
    }

    store_contract!(open);
}

mod in_postgres {
    use handback_server::store::Postgres;
    use handback_server::store::postgres::Bounds;
    use handback_testkit::postgres::TestDatabase;
    use handback_testkit::store_contract;
    use tokio::runtime::Handle;
    use tokio::task::block_in_place;

    use super::{Arc, Store};

    fn open() -> (Arc<dyn Store>, TestDatabase) {
        let database = TestDatabase::create();
        let url = database.url();
        let opening = Postgres::open(&url, Bounds::default());
        let store = block_in_place(|| Handle::current().block_on(opening)).unwrap();
        (Arc::new(store), database)
    }

    store_contract!(open);
}
