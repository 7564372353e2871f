//! Judges rule 11: no task panics, and a server ends by itself only after a fault that explains it.

use std::cell::RefCell;
use std::sync::Once;

use crate::cluster::{SimCluster, machine_name};

thread_local!(static PANIC: RefCell<Option<String>> = const { RefCell::new(None) });

/// Records the panics of this thread from now on, also those that the handle of a task would hide.
pub fn record_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANIC.with_borrow_mut(|first_panic| {
                first_panic.get_or_insert_with(|| panic.to_string());
            });
            usual(panic);
        }));
    });
    PANIC.take();
}

/// Returns the rule that a panic or a server that ended breaks.
pub fn find_unexpected_stop(cluster: &SimCluster) -> Option<String> {
    if let Some(panic) = PANIC.take() {
        return Some(format!("11: {panic}"));
    }
    cluster.machines.values().find_map(|machine| {
        if !machine.is_in_use || machine.may_end_by_itself {
            return None;
        }
        let store = machine
            .running_store()
            .and_then(|store| store.look().failure);
        let alloc = machine
            .running_alloc()
            .and_then(|alloc| alloc.look().failure);
        let failure = store
            .or(alloc)
            .or_else(|| machine.start_error.lock().clone())?;
        Some(format!("11: {} ended: {failure}", machine_name(machine.id)))
    })
}
