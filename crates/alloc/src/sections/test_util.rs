//! Sections and nodes for tests.

use std::sync::Arc;

use seqsvr_core::command::Fence;
use seqsvr_core::ids::{Epoch, NamespaceId, SectionId, SectionKey, SessionId, Slot};
use seqsvr_core::section::{Section, SectionGrant};

use crate::options::{AllocEnvironment, Options};
use crate::sections::loaded_section::LoadedSection;
use crate::sections::section_lifecycle::SectionLifecycle;
use crate::sections::section_map::SectionMap;
use crate::session::leased_session::LeasedSession;
use crate::shared_parts::SharedParts;
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

/// Returns the parts of an AllocSvr without a store.
pub(crate) fn unconnected_parts() -> SharedParts {
    let any = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    let options = Options {
        seed: Some(1),
        ..Options::new("a1", any, Vec::new())
    };
    SharedParts::new(&options, AllocEnvironment::system(), any.to_string())
}

/// Returns a lifecycle whose store does not answer.
pub(crate) fn unconnected_lifecycle(
    shared: SharedParts,
    sections: Arc<SectionMap>,
) -> SectionLifecycle {
    let stores = StoreGroupClient::new(
        &["127.0.0.1:1".to_owned()],
        shared.channels.clone(),
        shared.random.clone(),
        shared.own_cluster.clone(),
        tokio::runtime::Handle::current(),
    );
    SectionLifecycle::new(shared, sections, CommandQueue::new(stores))
}
