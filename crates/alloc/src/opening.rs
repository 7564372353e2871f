//! Opening and closing a section at the store.
//!
//! Invariant: a generation for which a close was sent is dead here, whatever the answer: it is sealed
//! and taken out before the close is sent, and the next opening waits until the answer has come.

use std::sync::Arc;

use seqsvr_core::command::Fence;
use seqsvr_core::id::{SectionKey, Slot};
use seqsvr_core::route::RoutingTable;
use seqsvr_proto::convert::u128_bytes;
use seqsvr_proto::error::Fault;
use seqsvr_proto::v1::section_reply::Reply;
use seqsvr_proto::v1::{self, Reason, SectionCommand, SectionFinal, section_command};
use tokio::sync::watch;

use crate::loaded::Loaded;
use crate::node::Node;
use crate::sections::{Outcome, outcome};
use crate::session::Session;

impl Node {
    /// Loads a section this node owns at `fence`; whoever asks meanwhile joins. The work goes on if
    /// the caller gives up.
    pub(crate) async fn open(
        self: &Arc<Self>,
        fence: Fence,
        session: Arc<Session>,
    ) -> Result<(), Fault> {
        let key = fence.section;
        // Never closed: an error cannot come.
        let permit = self.sections.opening.clone().acquire_owned().await;
        let tx = match self.sections.begin(fence) {
            Ok(tx) => tx,
            Err(joined) => {
                drop(permit);
                return outcome(joined?).await;
            }
        };
        let rx = tx.subscribe();
        let node = self.clone();
        self.spawn(async move {
            let _permit = permit;
            let done = node.open_now(fence, session).await;
            node.sections.end(key, &tx, done);
        });
        outcome(rx).await
    }

    async fn open_now(&self, fence: Fence, session: Arc<Session>) -> Result<(), Fault> {
        if self
            .sections
            .get(fence.section)
            .is_some_and(|l| l.fence == fence && !l.section.is_sealed())
        {
            return Ok(());
        }
        let table = self
            .table
            .load()
            .ok_or_else(|| Fault::new(Reason::NotOwner, "no routing table yet"))?;
        let namespace = table.namespace_by_id(fence.section.namespace);
        let namespace = namespace
            .ok_or_else(|| Fault::new(Reason::NoSuchNamespace, "the namespace is gone"))?;
        let step = namespace.spec.step;
        let nonce: u128 = self.random.draw();
        // `expected` stays open: the store fills in what it has applied. The nonce keeps retries from
        // opening twice, the fence keeps out whoever lost the slot.
        let open = v1::Open {
            expected: None,
            nonce: u128_bytes(nonce),
            step,
        };
        let command = SectionCommand {
            fence: Some(fence.into()),
            command: Some(section_command::Command::Open(open)),
        };
        match self.submitter.submit(command).await? {
            Reply::Opened(opened) => {
                self.counters.opens.add(1);
                let section = self.sections.build(namespace, &opened);
                self.sections
                    .publish(Loaded::new(fence, session, section, step));
                Ok(())
            }
            Reply::Refused(refused) => Err(self.refusal(&refused)),
            Reply::Raised(_) | Reply::Closed(_) => Err(unexpected()),
        }
    }

    /// Hands an idle section back: the next owner (or we) go on right above the highest number used.
    /// Once begun it goes on if the caller gives up, because the section is sealed by then.
    pub(crate) async fn close(self: &Arc<Self>, loaded: Arc<Loaded>) {
        let Ok(tx) = self.sections.begin(loaded.fence) else {
            return;
        };
        let rx = tx.subscribe();
        let node = self.clone();
        self.spawn(async move { node.close_now(loaded, tx).await });
        let _ = outcome(rx).await;
    }

    async fn close_now(&self, loaded: Arc<Loaded>, tx: watch::Sender<Outcome>) {
        let key = loaded.key();
        if self.sections.retire(&loaded) {
            let value = loaded.drained().await;
            let close = v1::Close {
                generation: loaded.generation.0,
                value,
            };
            let command = SectionCommand {
                fence: Some(loaded.fence.into()),
                command: Some(section_command::Command::Close(close)),
            };
            // Whatever the answer: this generation is dead here.
            match self.submitter.submit(command).await {
                Ok(Reply::Closed(_)) => self.counters.closes.add(1),
                Ok(_) => {}
                Err(_) => self.sections.note_unsure(
                    key,
                    SectionFinal {
                        fence: Some(loaded.fence.into()),
                        generation: loaded.generation.0,
                        value,
                    },
                ),
            }
        }
        self.sections.end(key, &tx, Ok(()));
    }

    /// What a refusal by the state means to a caller.
    pub(crate) fn refusal(&self, refused: &v1::Refused) -> Fault {
        use v1::refused::Kind;
        match refused.kind() {
            Kind::NotOwner => {
                self.refresh_soon();
                Fault::new(Reason::NotOwner, refused.message.clone())
            }
            // Another generation came first: look again.
            Kind::StaleGeneration => Fault::new(Reason::NotOwner, refused.message.clone()),
            Kind::Exhausted => Fault::new(Reason::SequenceExhausted, refused.message.clone()),
            Kind::AboveBound => Fault::new(Reason::AboveBound, refused.message.clone()),
            Kind::NoSuchNamespace => Fault::new(Reason::NoSuchNamespace, refused.message.clone()),
            Kind::Invalid | Kind::Unspecified => {
                Fault::new(Reason::Refused, refused.message.clone())
            }
        }
    }

    /// Fence for a section of a slot this node owns by the table.
    pub(crate) fn fence(table: &RoutingTable, slot: Slot, section: SectionKey) -> Fence {
        Fence {
            slot,
            epoch: table.route(slot).map(|r| r.epoch).unwrap_or_default(),
            section,
        }
    }
}

pub(crate) fn unexpected() -> Fault {
    Fault::new(
        Reason::Unspecified,
        "the store answered another command than the one asked",
    )
}
