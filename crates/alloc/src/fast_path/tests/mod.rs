//! Tests of the fast path on a node whose table, session and sections are made by hand. Its clock
//! runs a hook of the test at the one clock reading between taking and checking, which injects the
//! schedules.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use seqsvr_core::command::Fence;
use seqsvr_core::ids::{ClusterId, Epoch, NamespaceId, SectionId, SectionKey, SessionId, Slot};
use seqsvr_core::key::KeyRef;
use seqsvr_core::lease::{ClockReading, Lease};
use seqsvr_core::namespace::{Namespace, NamespaceSpec};
use seqsvr_core::routing_table::{Route, RoutingDelta, SlotOwner};
use seqsvr_core::section::{Section, SectionGrant};
use seqsvr_proto::v1::{CurrentManyRequest, NextManyRequest};

use super::*;
use crate::sections::loaded_section::LoadedSection;
use crate::session::current_session::CurrentSession;
use crate::session::routing_table_cell::RoutingTableCell;
use crate::slow_path::SlowPath;
use crate::{AllocEnvironment, AllocServer, Clock, Options};

mod batch;
mod cached;
mod coalesced;
mod single;
mod withdrawn;

const SLOT_COUNT: u32 = 8;
const SECTION_SIZE: u64 = 100_000;
const LEASE: Duration = Duration::from_secs(3);
const START: ClockReading = ClockReading {
    main_ns: 0,
    raw_ns: 0,
};

/// Clock that does not advance. At its next reading it runs the hook of the test first.
#[derive(Default)]
struct HookedClock {
    ns: AtomicU64,
    readings: AtomicU64,
    hook: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Clock for HookedClock {
    fn now(&self) -> ClockReading {
        let hook = self.hook.lock().take();
        hook.into_iter().for_each(|hook| hook());
        self.readings.fetch_add(1, Relaxed);
        let ns = self.ns.load(Relaxed);
        ClockReading {
            main_ns: ns,
            raw_ns: ns,
        }
    }
}

fn owned_route(slot: u16, session: u64, version: u64) -> (Slot, Route) {
    let owner = SlotOwner {
        session: SessionId(session),
        name: format!("a{session}"),
        address: format!("127.0.0.1:{session}"),
    };
    let route = Route {
        epoch: Epoch(version),
        owner: Some(owner),
        version,
    };
    (Slot(slot), route)
}

fn table_delta(version: u64, routes: Vec<(Slot, Route)>) -> RoutingDelta {
    let namespaces = [
        NamespaceSpec::default_dense(),
        NamespaceSpec::default_keyed(),
    ];
    let namespaces = namespaces.into_iter().zip(1..).map(|(spec, id)| Namespace {
        id: NamespaceId(id),
        spec,
        version: 1,
    });
    RoutingDelta {
        cluster: ClusterId(1),
        base: version - 1,
        version,
        slot_count: SLOT_COUNT,
        namespaces: namespaces.filter(|_| version == 1).collect(),
        families: Vec::new(),
        routes,
    }
}

/// Returns the delta that makes `default` strict, at a version.
fn strict_delta(version: u64) -> RoutingDelta {
    let mut spec = NamespaceSpec::default_dense();
    spec.limits.strict = true;
    RoutingDelta {
        namespaces: vec![Namespace {
            id: NamespaceId(1),
            spec,
            version,
        }],
        ..table_delta(version, Vec::new())
    }
}

pub(crate) struct FastPathFixture {
    pub(crate) fast_path: Arc<FastPath>,
    pub(crate) slow_path: Arc<SlowPath>,
    pub(crate) sections: Arc<SectionMap>,
    pub(crate) table: Arc<RoutingTableCell>,
    pub(crate) current_session: Arc<CurrentSession>,
    /// Session of all sections.
    pub(crate) session: Arc<LeasedSession>,
    clock: Arc<HookedClock>,
    pub(crate) alloc: AllocServer,
}

impl FastPathFixture {
    /// Starts a node that owns all slots at epoch 1 and has loaded the first four sections of
    /// `default` and all sections of `keys`.
    pub(crate) async fn new() -> FastPathFixture {
        let clock = Arc::new(HookedClock::default());
        let environment = AllocEnvironment {
            clock: clock.clone(),
            ..AllocEnvironment::system()
        };
        // There is no store: only the test changes the node.
        let any = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
        let options = Options::new("a1", any, vec!["127.0.0.1:1".into()]);
        let alloc = AllocServer::start_in(options, environment).await.unwrap();
        let parts = alloc.components.sequence.clone();
        let shared = parts.shared.clone();
        let session = Arc::new(LeasedSession::new(SessionId(1)));
        session.renew(Lease::new(START, LEASE));
        shared.session.replace(Some(session.clone()));
        let all = (0..SLOT_COUNT as u16)
            .map(|slot| owned_route(slot, 1, 1))
            .collect();
        shared.table.apply(table_delta(1, all)).unwrap();
        let fixture = FastPathFixture {
            fast_path: parts.fast_path.clone(),
            slow_path: parts.slow_path.clone(),
            sections: alloc.components.sections.clone(),
            table: shared.table.clone(),
            current_session: shared.session.clone(),
            session,
            clock,
            alloc,
        };
        (0..4).for_each(|section| fixture.load_section(1, section));
        (0..4_096).for_each(|section| fixture.load_section(2, section));
        fixture
    }

    fn load_section(&self, namespace: u32, section: u32) {
        self.publish_section(namespace, section, 1, 0);
    }

    /// Publishes a section with this generation and base, as a new open does.
    fn publish_section(&self, namespace: u32, section: u32, generation: u64, base: u64) {
        let key = SectionKey {
            namespace: NamespaceId(namespace),
            section: SectionId(section),
        };
        let table = self.table.load().unwrap();
        let slot = table.slot_of(key);
        let fence = Fence {
            slot,
            epoch: table.route(slot).unwrap().epoch,
            section: key,
        };
        let open = SectionGrant {
            generation,
            base,
            max_seq: base + 1_000,
            first: Some(base + 1),
            stride: 1,
        };
        let section = match namespace {
            1 => Section::dense(open, SECTION_SIZE as u32),
            _ => Section::keyed(open, [1, 2]),
        };
        let loaded = LoadedSection::new(fence, self.session.clone(), section, 1_000);
        self.sections.publish(loaded);
    }

    /// Returns the slot of a uid's section.
    fn slot_of_uid(&self, uid: u64) -> Slot {
        let table = self.table.load().unwrap();
        let namespace = &table.namespaces()[0];
        table.locate(namespace, KeyRef::Uid(uid)).unwrap().1
    }

    fn run_at_check(&self, hook: impl FnOnce() + Send + 'static) {
        *self.clock.hook.lock() = Some(Box::new(hook));
    }

    fn take_next(&self, uids: &[u64]) -> FastPathResult {
        self.try_batch(NextManyRequest {
            uids: uids.to_vec(),
            ..NextManyRequest::default()
        })
    }

    fn try_batch(&self, request: NextManyRequest) -> FastPathResult {
        let batch = BatchRequest::from(request);
        batch.validate(10_000).unwrap();
        self.fast_path.try_batch(&batch)
    }

    /// Makes the lease expire at the check. The namespace is strict for more than D by then, and a
    /// renewal brings both.
    fn become_strict_at_check(&self) {
        let (table, clock, session) =
            (self.table.clone(), self.clock.clone(), self.session.clone());
        self.run_at_check(move || {
            let late = 3 * LEASE.as_nanos() as u64;
            clock.ns.store(late, Relaxed);
            assert!(table.apply(strict_delta(2)).unwrap());
            let now = ClockReading {
                main_ns: late,
                raw_ns: late,
            };
            session.renew(Lease::new(now, LEASE));
        });
    }

    fn discarded_count(&self) -> u64 {
        self.fast_path.shared.counters.numbers_discarded.get()
    }
}

/// Returns one uid of each of the four sections.
fn uid_of_each_section() -> [u64; 4] {
    [0, 1, 2, 3].map(|section| section * SECTION_SIZE + 7)
}

fn next_batch(uids: &[u64]) -> BatchRequest {
    BatchRequest::from(NextManyRequest {
        uids: uids.to_vec(),
        ..NextManyRequest::default()
    })
}
