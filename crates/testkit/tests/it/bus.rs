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

    use handback_core::bus::{Bus, Heard, Note};
    use handback_core::id::NodeId;
    use handback_server::bus::PostgresBus;
    use handback_testkit::bus_contract::{Node, meet};
    use handback_testkit::postgres::query;
    use handback_testkit::relay::Relay;
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

    /// Whatever it was sent meanwhile is lost.
    #[tokio::test]
    async fn a_node_that_was_cut_off_knows_that_it_missed_something_and_hears_again() {
        let database = TestDatabase::create();
        let relay = Relay::before(&database.url()).await;
        let node = |url: &str, number| {
            let id = NodeId::new(number);
            Node { id, bus: Arc::new(PostgresBus::new(url, id).unwrap()) }
        };
        let nodes = [node(&database.url(), 1), node(relay.url(), 2), node(&database.url(), 3)];
        meet(&nodes).await;
        let [one, two, _] = &nodes;
        for _ in 0..2 {
            relay.close();
            one.bus.send(two.id, Note::Mail);
            relay.open();
            while two.bus.hear().await != Heard::Missed {}
            meet(&nodes).await;
        }
    }

    /// Somebody in between may lend each transaction another connection: then a node looks everywhere, now and then.
    #[tokio::test]
    async fn a_node_that_cannot_listen_misses_something_all_the_time() {
        let database = TestDatabase::create();
        // The last of these functions is found first, and says that nothing is listened to.
        let pool = format!(
            "CREATE SCHEMA pool; CREATE FUNCTION pool.pg_listening_channels() RETURNS SETOF TEXT LANGUAGE sql
                AS 'SELECT NULL::TEXT WHERE FALSE'; ALTER DATABASE {} SET search_path = pool, pg_catalog",
            database.name()
        );
        query(&database.url(), &pool).unwrap();
        let bus = PostgresBus::new(&database.url(), NodeId::new(1)).unwrap();
        for _ in 0..3 {
            assert_eq!(bus.hear().await, Heard::Missed);
        }
        assert!(!bus.is_listening());
    }
}
