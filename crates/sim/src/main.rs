//! Binary of the simulation: one thread and one seed a run. See `docs/dev/simulation.md`.

#[cfg(not(sim))]
fn main() {
    eprintln!("this binary needs --cfg sim; run `cargo xtask sim`");
    std::process::exit(2);
}

#[cfg(sim)]
fn main() -> std::process::ExitCode {
    seqsvr_sim::command::run_command()
}
