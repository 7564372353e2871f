//! Why items of a request wait, and with whom: each kind of miss becomes a group of items that wait
//! for the same thing, or an answer at once.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use seqsvr_core::id::{SectionKey, Slot};
use seqsvr_core::route::RoutingTable;
use seqsvr_core::section::Refusal;
use seqsvr_proto::error::Fault;
use seqsvr_proto::v1::Reason;

use crate::ask::{Call, Miss, out_of_time};
use crate::guard::Holding;
use crate::loaded::Loaded;
use crate::node::Node;
use crate::serve::SoFar;
use crate::waiting::{Places, RETRY_MS};

/// Items that wait for the same thing.
#[derive(PartialEq, Eq, Hash)]
pub(crate) enum Group {
    Open(SectionKey, Slot),
    Refill(Object, u64),
    Raise(Object, u64, bool),
    Read(SectionKey),
    Guard(Holding),
    Confirm(Holding),
    Remote(String),
    Refresh,
    Wait,
}

/// A section object, compared by identity.
pub(crate) struct Object(pub(crate) Arc<Loaded>);

impl PartialEq for Object {
    fn eq(&self, other: &Object) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Object {}

impl Hash for Object {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

/// Why an item is not answered yet; put into words only if it never is.
pub(crate) enum Why {
    Opening(SectionKey),
    Window(SectionKey),
    Raising(SectionKey),
    Store,
    NotConfirmed,
    Owner(String),
    Table,
    Memory,
    Other(Reason, String),
}

impl Node {
    /// The error of an item that was not answered in time.
    pub(crate) fn too_late(&self, why: Option<&Why>) -> Fault {
        let stores = || self.stores.list();
        let (reason, text) = match why {
            Some(Why::Opening(section)) => (
                Reason::NoWindow,
                format!(
                    "section {section} is being opened at the store ({})",
                    stores()
                ),
            ),
            Some(Why::Window(section)) => (
                Reason::NoWindow,
                format!(
                    "the window of section {section} is used up and no store of {} has confirmed a raise",
                    stores()
                ),
            ),
            Some(Why::Raising(section)) => (
                Reason::NoWindow,
                format!("the raise of section {section} is not confirmed yet"),
            ),
            Some(Why::Store) => (
                Reason::Unreachable,
                format!("no store of {} has answered", stores()),
            ),
            Some(Why::NotConfirmed) => (
                Reason::Unreachable,
                format!("no store of {} has confirmed this owner", stores()),
            ),
            Some(Why::Owner(address)) => (
                Reason::NotOwner,
                format!("the owner at {address} has not answered"),
            ),
            // The client retries this reason only if it has a hint.
            Some(Why::Memory) => {
                let text = format!(
                    "{} while sections are closed; if this lasts, raise --memory-mib of AllocSvr",
                    Refusal::NoMemory
                );
                return Fault::new(Reason::TooMany, text).with_retry_after_ms(RETRY_MS);
            }
            Some(Why::Other(reason, text)) => (*reason, text.clone()),
            Some(Why::Table) | None => (Reason::Unreachable, "it was still under way".to_owned()),
        };
        out_of_time(reason, &text)
    }

    /// Answers the misses that are final, and those that would have to wait and get no place; adds
    /// the others to the groups of what they wait for. `behind`: the caller knows a newer table,
    /// and nobody has asked for it yet.
    pub(crate) fn sort(
        &self,
        call: &Call,
        behind: bool,
        table: &RoutingTable,
        misses: impl Iterator<Item = (u32, Miss)>,
        so_far: &mut SoFar,
        places: &mut Places<'_>,
    ) {
        // A caller that routes by itself and is behind is redirected; any other is forwarded.
        let redirect =
            call.forwarded || (call.table_version != 0 && call.table_version < table.version());
        // Once for all, so that the many items of a batch that is turned away cost little.
        let mut no_place: Option<Fault> = None;
        for (index, miss) in misses {
            let refuse = |reason, text: String| {
                self.counters.not_owner.add(1);
                Err(Fault::new(reason, text))
            };
            // What it waits for, or why it is refused at once.
            let waits = match miss {
                Miss::Final(fault) => Err(fault),
                Miss::Remote(_) | Miss::Wait(Reason::NotOwner, _) if behind => {
                    so_far.refreshed = true;
                    Ok((Group::Refresh, Why::Table))
                }
                Miss::Remote(address) if redirect => {
                    refuse(Reason::NotOwner, format!("the owner is at {address}"))
                }
                // Another AllocSvr may own the slot.
                Miss::Wait(reason, text) if call.forwarded => refuse(reason, text),
                Miss::Wait(reason, text) => Ok((Group::Wait, Why::Other(reason, text))),
                Miss::Memory => Ok((Group::Wait, Why::Memory)),
                Miss::Open(section, slot) => {
                    Ok((Group::Open(section, slot), Why::Opening(section)))
                }
                Miss::Refill(loaded, needed) => {
                    let why = Why::Window(loaded.key());
                    Ok((Group::Refill(Object(loaded), needed), why))
                }
                Miss::Raise(loaded, to, force) => {
                    let why = Why::Raising(loaded.key());
                    Ok((Group::Raise(Object(loaded), to, force), why))
                }
                Miss::Read(section) => Ok((Group::Read(section), Why::Store)),
                Miss::Guard(loaded) => Ok((Group::Guard(loaded.holding()), Why::NotConfirmed)),
                Miss::Confirm(loaded, answer) => {
                    so_far.held.insert(index, answer);
                    Ok((Group::Confirm(loaded.holding()), Why::NotConfirmed))
                }
                Miss::Remote(address) => Ok((Group::Remote(address.clone()), Why::Owner(address))),
            };
            let (group, why) = match waits {
                Ok(waits) => waits,
                Err(fault) => {
                    so_far.answers[index as usize] = Some(Err(fault));
                    continue;
                }
            };
            if no_place.is_none() {
                no_place = places.take(&self.counters.waiting_refused).err();
            }
            if let Some(fault) = &no_place {
                // Its number, if it took one, is burned at the end.
                so_far.answers[index as usize] = Some(Err(fault.clone()));
                continue;
            }
            so_far.why.insert(index, why);
            so_far.groups.entry(group).or_default().push(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use seqsvr_proto::v1::NextManyRequest;
    use tokio::time::Instant;

    use super::*;
    use crate::frame::Frame;
    use crate::hits::tests::World;
    use crate::idle::tests::node;

    /// Schedule: another AllocSvr forwarded the call, and this owner closes sections to make room.
    #[tokio::test]
    async fn a_forwarded_item_waits_for_memory() {
        let world = World::new().await;
        let frame = Frame::from(NextManyRequest {
            uids: vec![7],
            forwarded: true,
            ..NextManyRequest::default()
        });
        let call = frame.call(Instant::now(), None, None);
        let table = world.node.table.load().unwrap();
        let mut so_far = SoFar {
            answers: vec![None],
            ..SoFar::default()
        };
        let mut places = world.node.waiting.places(None, 1);
        let misses = std::iter::once((0, Miss::Memory));
        world
            .node
            .sort(&call, false, &table, misses, &mut so_far, &mut places);
        assert!(so_far.answers[0].is_none(), "not refused");
        assert_eq!(so_far.groups[&Group::Wait], [0]);
    }

    #[tokio::test]
    async fn an_item_that_got_no_memory_in_time_may_be_retried() {
        let (_alloc, node) = node().await;
        let fault = node.too_late(Some(&Why::Memory));
        assert_eq!(fault.code, tonic::Code::ResourceExhausted);
        assert!(fault.detail.retry_after_ms > 0);
    }
}
