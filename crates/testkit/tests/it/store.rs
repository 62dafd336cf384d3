//! Stores: the one suite for all of them, and what only the one on disk has to do.

mod faults;
mod files;
mod keeping;
mod killed;
mod lost;
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
    use handback_core::message::Session;
    use handback_core::store::{Bounds, MemoryStore, Most, RunStore, SessionFilter, SessionStore};
    use handback_core::thread_run::ThreadRun;
    use handback_testkit::store_contract;
    use handback_testkit::store_contract::samples::{events, raw, run, session};

    use super::{Arc, Store};

    fn open() -> (Arc<dyn Store>, ()) {
        (Arc::new(MemoryStore::default()), ())
    }

    store_contract!(open);

    #[tokio::test]
    async fn a_session_that_grows_makes_room_for_itself() {
        let store = MemoryStore::new(Bounds { message_bytes: 8_192, ..Bounds::default() });
        for id in ["ses_1", "ses_2"] {
            store.save_session(&Arc::new(session(id))).await.unwrap();
        }
        let metadata = Some(raw(&format!("{{\"a\":\"{}\"}}", "x".repeat(7_000))));
        for metadata in [metadata.clone(), None, metadata] {
            store.save_session(&Arc::new(Session { metadata, ..session("ses_2") })).await.unwrap();
            let list = store.list_sessions(&SessionFilter::default(), None, Most::items(10)).await.unwrap().items;
            assert_eq!(list.iter().map(|session| session.id.as_str()).collect::<Vec<_>>(), ["ses_2"]);
        }
        store.save_session(&Arc::new(session("ses_2"))).await.unwrap();
        store.save_session(&Arc::new(session("ses_1"))).await.unwrap();
        assert_eq!(store.list_sessions(&SessionFilter::default(), None, Most::items(10)).await.unwrap().items.len(), 2);
    }

    #[tokio::test]
    async fn runs_and_what_they_tell_make_room_for_themselves() {
        let bounds = Bounds { message_bytes: 8_192, ..Bounds::default() };
        let large = Some(raw(&format!("{{\"a\":\"{}\"}}", "x".repeat(6_000))));
        let with_input = Arc::new(ThreadRun { input: large, ..run("ses_2", "run_1") });
        let bare = Arc::new(run("ses_2", "run_1"));
        for (made, told) in [(&with_input, vec!["a"; 1]), (&bare, vec!["0123456789"; 150])] {
            let store = MemoryStore::new(bounds);
            let ids = async || {
                let list = store.list_sessions(&SessionFilter::default(), None, Most::items(10)).await.unwrap().items;
                list.iter().map(|session| session.id.to_string()).collect::<Vec<_>>()
            };
            for id in ["ses_1", "ses_2"] {
                store.save_session(&Arc::new(session(id))).await.unwrap();
            }
            // Saved over and over it takes its room once.
            for _ in 0..20 {
                store.save_run(&bare).await.unwrap();
                store.append_run_events(&bare.session, &bare.id, 0, events(&["a"])).await.unwrap();
            }
            assert_eq!(ids().await, ["ses_2", "ses_1"]);
            store.save_run(made).await.unwrap();
            store.append_run_events(&made.session, &made.id, 1, events(&told)).await.unwrap();
            assert_eq!(ids().await, ["ses_2"]);
            assert_eq!(store.run_events(&made.session, &made.id, 1).await.unwrap(), events(&told));
            // Their room is free again once their session is gone.
            assert!(store.delete_session(&made.session).await.unwrap());
            for id in ["ses_1", "ses_2", "ses_3", "ses_4"] {
                store.save_session(&Arc::new(session(id))).await.unwrap();
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
