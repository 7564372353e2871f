//! A replicated state with many sections.

use std::collections::BTreeSet;

use seqsvr_core::command::{Batch, Command, Reply};
use seqsvr_core::geometry::{Geometry, KEYED_SECTIONS_MAX};
use seqsvr_core::ids::{ClusterId, Generation, NamespaceId, Nonce, SectionId, SectionKey};
use seqsvr_core::namespace::NamespaceSpec;
use seqsvr_core::state::{RowKey, SectionRow, State, StateBuilder, StateRow};

const LEASE_MS: u32 = 3_000;
const SLOTS: u32 = 4_096;

/// Builds a state with `count` sections, in keyed namespaces of the largest size. Every second
/// section is open.
///
/// # Errors
/// The state machine rejects a command.
pub(super) fn build_state(count: u64) -> Result<State, String> {
    let mut state = State::default();
    let init = Command::Init {
        cluster: ClusterId(rand::random()),
        lease_ms: LEASE_MS,
        slots: SLOTS,
    };
    apply_command(&mut state, init)?;
    let sections_max = u64::from(KEYED_SECTIONS_MAX);
    let mut namespaces: Vec<NamespaceId> = Vec::new();
    for n in 0..count.div_ceil(sections_max) {
        let geometry = Geometry::Keyed {
            sections: KEYED_SECTIONS_MAX,
        };
        let spec = NamespaceSpec::new(&format!("many-{n}"), geometry);
        match apply_command(&mut state, Command::CreateNamespace(spec))? {
            Reply::Namespace(id) => namespaces.push(id),
            other => return Err(format!("unexpected reply to CreateNamespace: {other:?}")),
        }
    }
    let mut builder = StateBuilder::default();
    state.rows().for_each(|(key, row)| builder.add(key, row));
    let sections = namespaces
        .iter()
        .flat_map(|namespace| (0..KEYED_SECTIONS_MAX).map(|n| (*namespace, n)));
    for (i, (namespace, n)) in (0..count).zip(sections) {
        let key = SectionKey {
            namespace,
            section: SectionId(n),
        };
        let section = SectionRow {
            max_seq: 10_000 + i,
            generation: Generation(1),
            base: 0,
            nonce: Nonce(rand::random()),
            open: i % 2 == 0,
            raised: 0,
        };
        builder.add(RowKey::Section(key), StateRow::Section(section));
    }
    let state = builder.finish();
    state.ok_or_else(|| String::from("internal error: the rows contradict each other"))
}

fn apply_command(state: &mut State, command: Command) -> Result<Reply, String> {
    let batch = Batch {
        commands: vec![command],
    };
    let mut replies = state.apply(1, &batch, &mut BTreeSet::new());
    match replies.pop() {
        Some(Reply::Rejected(rejection)) => Err(rejection.to_string()),
        Some(reply) => Ok(reply),
        None => Err(String::from("internal error: a command has no reply")),
    }
}
