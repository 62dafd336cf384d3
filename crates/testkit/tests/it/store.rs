//! Stores: the one suite for all of them, and what only the one on disk has to do.

mod faults;
mod files;
mod keeping;
mod killed;
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
    use handback_core::store::{Bounds, MemoryStore};
    use handback_testkit::store_contract;
    use handback_testkit::store_contract::samples::{raw, session};

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
            let list = store.list_sessions(None, 10).await.unwrap();
            assert_eq!(list.iter().map(|session| session.id.as_str()).collect::<Vec<_>>(), ["ses_2"]);
        }
        store.save_session(&Arc::new(session("ses_2"))).await.unwrap();
        store.save_session(&Arc::new(session("ses_1"))).await.unwrap();
        assert_eq!(store.list_sessions(None, 10).await.unwrap().len(), 2);
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
