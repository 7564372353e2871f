//! Cargo, called by a process that cargo itself runs.

use std::env;
use std::process::Command;

/// Returns a command of the cargo that runs this process, without the variables that describe the
/// package of this process.
///
/// Some build scripts, such as that of ring, depend on these variables. With those of a test they
/// would run again, and all crates above be built once more, for each package whose tests build
/// something.
pub fn cargo_command() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let is_of_package =
        |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(is_of_package) {
            command.env_remove(name);
        }
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_command_has_no_variable_of_the_package_that_is_tested() {
        let command = cargo_command();
        let removed: Vec<_> = command.get_envs().collect();
        for name in ["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME"] {
            assert!(env::var_os(name).is_some(), "{name}");
            assert!(removed.contains(&(name.as_ref(), None)), "{name}");
        }
    }
}
