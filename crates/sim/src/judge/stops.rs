//! 11: no task panics, and no server ends by itself but for a fault that explains it.

use std::cell::RefCell;
use std::sync::Once;

use crate::cluster::{Cluster, name};

thread_local!(static PANIC: RefCell<Option<String>> = const { RefCell::new(None) });

/// Notes the panics of this thread from here on, also those that a task's handle would swallow.
pub fn note_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANIC.with_borrow_mut(|noted| {
                noted.get_or_insert_with(|| panic.to_string());
            });
            usual(panic);
        }));
    });
    PANIC.take();
}

/// Looks for panics and for servers that ended. Returns the rule that is broken.
pub fn look(cluster: &Cluster) -> Option<String> {
    if let Some(panic) = PANIC.take() {
        return Some(format!("11: {panic}"));
    }
    cluster.machines.values().find_map(|machine| {
        if !machine.in_use || machine.may_stop {
            return None;
        }
        let store = machine.store().and_then(|store| store.look().failure);
        let alloc = machine.alloc().and_then(|alloc| alloc.look().failure);
        let ended = store.or(alloc).or_else(|| machine.refusal.lock().clone())?;
        Some(format!("11: {} ended: {ended}", name(machine.id)))
    })
}
