//! Sections and nodes for tests.

use std::sync::Arc;

use seqsvr_core::command::Fence;
use seqsvr_core::ids::{Epoch, NamespaceId, SectionId, SectionKey, SessionId, Slot};
use seqsvr_core::section::{Section, SectionGrant};
use tokio_util::task::TaskTracker;

use crate::background_executor::BackgroundExecutor;
use crate::random::RandomSource;
use crate::sections::loaded_section::LoadedSection;
use crate::sections::section_lifecycle::SectionLifecycle;
use crate::sections::section_map::SectionMap;
use crate::session::leased_session::LeasedSession;
use crate::session::renewal_signal::RenewalSignal;
use crate::session::routing_table_cell::RoutingTableCell;
use crate::store_client::command_queue::CommandQueue;
use crate::store_client::store_group::StoreGroupClient;

/// Returns a section object with a window of 1,000.
pub(crate) fn test_section(section: u32, size: u32) -> Arc<LoadedSection> {
    let key = SectionKey {
        namespace: NamespaceId(1),
        section: SectionId(section),
    };
    let fence = Fence {
        slot: Slot(0),
        epoch: Epoch(1),
        section: key,
    };
    let session = Arc::new(LeasedSession::new(SessionId(1)));
    Arc::new(LoadedSection::new(fence, session, dense_section(size), 10))
}

pub(crate) fn dense_section(size: u32) -> Section {
    let open = SectionGrant {
        generation: 1,
        base: 0,
        max_seq: 1_000,
        first: Some(1),
        stride: 1,
    };
    Section::dense(open, size)
}

/// Returns a lifecycle whose store does not answer.
pub(crate) fn unconnected_lifecycle(
    sections: Arc<SectionMap>,
    renewals: Arc<RenewalSignal>,
) -> SectionLifecycle {
    let (own_cluster, random) = (Arc::default(), RandomSource::new(Some(1)));
    let stores = StoreGroupClient::new(
        &["127.0.0.1:1".to_owned()],
        seqsvr_net::ChannelPool::new(),
        random.clone(),
        Arc::clone(&own_cluster),
        tokio::runtime::Handle::current(),
    );
    SectionLifecycle::new(
        sections,
        Arc::new(RoutingTableCell::new(own_cluster)),
        renewals,
        CommandQueue::new(stores),
        Arc::default(),
        random,
        BackgroundExecutor::new(None, TaskTracker::new()),
    )
}
