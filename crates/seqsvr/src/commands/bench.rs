//! `seqsvr bench`: generates load and prints what was measured.

use seqsvr_bench::{BenchSettings, run_bench};

use super::cli_client::CliClient;
use crate::cli;
use crate::output::{log, stdout};

pub(crate) async fn run(args: cli::BenchArgs) -> anyhow::Result<()> {
    let is_json = args.json;
    let clients: Vec<CliClient> = (0..args.connections)
        .map(|_| CliClient::connect(&args.client))
        .collect::<Result<_, _>>()?;
    let sdk_clients: Vec<_> = clients.iter().map(|client| client.sdk.clone()).collect();
    let settings = BenchSettings {
        mode: args.mode,
        unary: args.unary,
        servers: args
            .client
            .addresses()
            .into_iter()
            .map(str::to_owned)
            .collect(),
        channels: args.client.options().channels()?,
        timeout: args.client.timeout,
        in_flight: args.in_flight,
        keys: args.keys,
        key_bytes: args.key_bytes,
        distribution: args.distribution,
        namespaces: args.namespaces,
        family: args.family,
        batch: args.batch,
        count: args.count,
        duration: args.duration,
        warm_up: args.warm_up,
        rate: args.rate,
        history: args.history,
    };
    let report = run_bench(settings, sdk_clients, log::log_unfiltered).await?;
    match is_json {
        true => stdout::print_json(report.to_json())?,
        false => {
            for line in report.to_lines() {
                stdout::print_line(line)?;
            }
        }
    }
    Ok(())
}
