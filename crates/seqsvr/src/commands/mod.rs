//! The commands, with one file for each command or group of commands.

mod bench;
mod check;
mod cli_client;
mod completion;
mod config;
mod ids;
mod member;
mod namespace;
mod recovery;
mod security;
mod sequence;
mod servers;
mod slot;
mod status;

use seqsvr_ids::opaque_numbers::OpaqueNumbers;

use crate::cli::{CliCommand, CommandLine, ConfigCommand, IdCommand};

pub(crate) async fn run(cli: CommandLine) -> anyhow::Result<()> {
    match cli.command {
        CliCommand::Dev(args) => servers::dev::run(args).await,
        CliCommand::Store(args) => servers::store::run(args).await,
        CliCommand::Init(args) => servers::init::run(args).await,
        CliCommand::Alloc(args) => servers::alloc::run(*args).await,
        CliCommand::Next(args) => sequence::take_next(args).await,
        CliCommand::Current(args) => sequence::print_current(args).await,
        CliCommand::Route(args) => sequence::print_route(args).await,
        CliCommand::RaiseTo(args) => sequence::raise_to(args).await,
        CliCommand::Status(args) => status::run(args).await,
        CliCommand::Namespace(args) => namespace::run(args).await,
        CliCommand::Member(args) => member::run(args).await,
        CliCommand::Slot(command) => slot::run(command).await,
        CliCommand::Backup(args) => recovery::backup::run(args).await,
        CliCommand::Restore(args) => recovery::restore::run(args).await,
        CliCommand::Bench(args) => bench::run(args).await,
        CliCommand::Check(args) => check::run(&args),
        CliCommand::Id(IdCommand::Next(args)) => ids::next::run(args).await,
        CliCommand::Id(IdCommand::New(args)) => ids::new::run(&args),
        CliCommand::Id(IdCommand::Stats(args)) => ids::stats::run(&args),
        CliCommand::Id(IdCommand::Create(args)) => ids::families::create(*args).await,
        CliCommand::Id(IdCommand::List(args)) => ids::families::list(args).await,
        CliCommand::Id(IdCommand::Alter(args)) => ids::families::alter(args).await,
        CliCommand::Id(IdCommand::RaiseTo(args)) => ids::families::raise(args).await,
        CliCommand::Id(IdCommand::Workers(args)) => ids::families::print_workers(args).await,
        CliCommand::Id(IdCommand::Revoke(args)) => ids::families::revoke(args).await,
        CliCommand::Id(IdCommand::Clock(args)) => ids::clock::run(args).await,
        CliCommand::Hide(args) => ids::opaque::run(&args, OpaqueNumbers::hide),
        CliCommand::Show(args) => ids::opaque::run(&args, OpaqueNumbers::show),
        CliCommand::Decode(args) => ids::decode::run(&args).await,
        CliCommand::Cert(command) => security::cert::run(command),
        CliCommand::Auth(command) => security::auth::run(command),
        CliCommand::Completion(args) => completion::run(&args),
        CliCommand::Config(ConfigCommand::Check(args)) => config::check_config(args, cli.config),
    }
}
