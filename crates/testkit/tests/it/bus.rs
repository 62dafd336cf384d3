//! Buses: the one suite for all of them.

mod in_memory {
    use std::sync::Arc;

    use handback_core::bus::MemoryBuses;
    use handback_core::id::NodeId;
    use handback_testkit::bus_contract;
    use handback_testkit::bus_contract::Node;

    async fn open() -> ([Node; 3], ()) {
        let buses = MemoryBuses::default();
        let node = |number| {
            let id = NodeId::new(number);
            Node { id, bus: Arc::new(buses.join(id)) }
        };
        ([1, 2, 3].map(node), ())
    }

    bus_contract!(open);
}

mod in_postgres {
    use std::sync::Arc;

    use handback_core::id::NodeId;
    use handback_server::bus::PostgresBus;
    use handback_testkit::bus_contract::Node;
    use handback_testkit::{TestDatabase, bus_contract};

    async fn open() -> ([Node; 3], TestDatabase) {
        let database = TestDatabase::create();
        let node = |number| {
            let id = NodeId::new(number);
            Node { id, bus: Arc::new(PostgresBus::new(&database.url(), id).unwrap()) }
        };
        ([1, 2, 3].map(node), database)
    }

    bus_contract!(open);
}
