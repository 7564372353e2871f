//! AllocSvr that speaks for the others: it has a certificate and no slot, and submits that their
//! sections were closed at 0, under the epoch to come. The stores judge it by its certificate; the
//! simulated network has no TLS and states the certificate of the caller.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use seqsvr_client::{Client, Key};
use seqsvr_core::ids::{SectionKey, Slot};
use seqsvr_net::tls::{PeerIdentity, Role};
use seqsvr_net::{ChannelPool, PeerCertificate};
use seqsvr_proto::v1::store_client::StoreClient;
use seqsvr_proto::v1::{
    Close, Fence, ReadRequest, SectionCommand, SectionRef, SubmitRequest, section_command,
};
use tokio::time::{sleep, timeout};
use tonic::transport::Channel;

use super::load_caller::all_uids;
use super::replaceable_client::create_client;
use super::run_context::{NAMESPACE, RunContext};
use crate::cluster::{initial_store_ids, store_address};
use crate::network::{MachineId, certified_transport};
use crate::plan::RunPlan;

/// Timeout of one request to a store.
const STORE_CALL_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause between two attempts at a section.
const PAUSE: Duration = Duration::from_millis(20);

/// Forges commands until the process ends, from the machine of a client.
pub(super) async fn run_rogue(id: MachineId, plan: RunPlan, context: Arc<RunContext>) {
    let Ok(identity) = PeerIdentity::new("sim", Role::Alloc, "rogue") else {
        unreachable!("the parts of an identity")
    };
    // It registers under no address, so no server reads more of the certificate.
    let certificate = PeerCertificate::new(identity, Vec::new());
    let transport = certified_transport(&context.net, id, certificate);
    let channels = ChannelPool::with_transport(transport);
    let client = create_client(id, &plan, &context);
    let places = loop {
        match find_sections(&client, &plan).await {
            Some(places) => break places,
            None => sleep(PAUSE).await,
        }
    };
    let addresses = initial_store_ids(&plan.setup).map(|id| store_address(id).to_string());
    let stores: Vec<_> = addresses
        .filter_map(|address| channels.get(&address).ok())
        .map(StoreClient::new)
        .collect();
    let forging = places.into_iter().map(|(section, slot)| {
        let stores = stores.clone();
        async move {
            // Only the leader answers.
            for store in stores.iter().cycle() {
                let forged = forge_close(store.clone(), section, slot);
                let _ = timeout(STORE_CALL_TIMEOUT, forged).await;
                sleep(PAUSE).await;
            }
        }
    });
    join_all(forging).await;
}

/// Returns the sections of all sequences, with their slots; None: no server answers.
async fn find_sections(client: &Client, plan: &RunPlan) -> Option<BTreeSet<(SectionKey, Slot)>> {
    let table = client.routes().await.ok()?;
    let namespace = table.namespace(NAMESPACE)?;
    let located = all_uids(&plan.load).map(|uid| table.locate(namespace, Key::Uid(uid).as_ref()));
    Some(located.filter_map(Result::ok).collect())
}

/// Submits that a section was closed at 0, in the epoch after the present one.
async fn forge_close(
    mut store: StoreClient<Channel>,
    key: SectionKey,
    slot: Slot,
) -> Result<(), tonic::Status> {
    let (namespace, section) = (key.namespace.0, key.section.0);
    let reading = ReadRequest {
        sections: vec![SectionRef { namespace, section }],
        slots: vec![slot.0.into()],
        ..ReadRequest::default()
    };
    let read = store.read(reading).await?.into_inner();
    let (Some(row), Some(epoch)) = (read.sections.first(), read.epochs.first()) else {
        return Ok(());
    };
    let command = SectionCommand {
        fence: Some(Fence {
            slot: slot.0.into(),
            epoch: epoch + 1,
            namespace,
            section,
        }),
        command: Some(section_command::Command::Close(Close {
            generation: row.generation,
            high_water_mark: 0,
        })),
    };
    let submitting = SubmitRequest {
        commands: vec![command],
        cluster_tag: 0,
    };
    store.submit(submitting).await.map(drop)
}
