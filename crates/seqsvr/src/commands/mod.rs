//! The commands, with one file for each command or group of commands.

mod alloc;
mod backup;
mod bench;
mod check;
mod completion;
mod config;
mod dev;
mod init;
mod member;
mod namespace;
mod restore;
mod sequence;
mod server;
mod slots;
mod status;
mod store;

use crate::cli::{Cli, Command, Config};

pub(crate) async fn run(cli: Cli) -> anyhow::Result<()> {
    match cli.command {
        Command::Dev(args) => dev::run(args).await,
        Command::Store(args) => store::run(args).await,
        Command::Init(args) => init::run(args).await,
        Command::Alloc(args) => alloc::run(args).await,
        Command::Next(args) => sequence::next(args).await,
        Command::Current(args) => sequence::current(args).await,
        Command::Route(args) => sequence::route(args).await,
        Command::RaiseTo(args) => sequence::raise_to(args).await,
        Command::Status(args) => status::run(args).await,
        Command::Namespace(args) => namespace::run(args).await,
        Command::Member(args) => member::run(args).await,
        Command::Move(args) => slots::move_slot(args).await,
        Command::Drain(args) => slots::drain(args).await,
        Command::Backup(args) => backup::run(args).await,
        Command::Restore(args) => restore::run(args).await,
        Command::Bench(args) => bench::run(args).await,
        Command::Check(args) => check::run(&args),
        Command::Completion(args) => completion::run(&args),
        Command::Config(Config::Check(args)) => config::check(args, cli.config),
    }
}
