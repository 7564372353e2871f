//! `namespace create|alter|list`.

use seqsvr_core::geometry::Geometry;
use seqsvr_core::namespace::{Namespace, NamespaceChange, NamespaceLimits, NamespaceSpec};
use seqsvr_core::progression::Progression;
use serde_json::{Value, json};

use super::cli_client::CliClient;
use crate::cli;
use crate::output::stdout;

pub(crate) async fn run(command: cli::NamespaceCommand) -> anyhow::Result<()> {
    match command {
        cli::NamespaceCommand::Create(args) => {
            let client = CliClient::connect(&args.client)?;
            let created = client
                .sdk
                .admin()
                .create_namespace(&build_spec(&args))
                .await?;
            stdout::print_line(namespace_line(&created))?;
        }
        cli::NamespaceCommand::Alter(args) => {
            let client = CliClient::connect(&args.client)?;
            let change = NamespaceChange {
                step: args.step,
                step_max: args.limits.step_max,
                raise_to_max: args.limits.raise_to_max,
                strict: args.strict,
            };
            let altered = client
                .sdk
                .admin()
                .alter_namespace(&args.name, change)
                .await?;
            stdout::print_line(namespace_line(&altered))?;
        }
        cli::NamespaceCommand::List(args) => {
            let client = CliClient::connect(&args.client)?;
            for namespace in client.sdk.admin().list_namespaces().await? {
                if args.json {
                    stdout::print_json(namespace_json(&namespace))?;
                } else {
                    stdout::print_line(namespace_line(&namespace))?;
                }
            }
        }
    }
    Ok(())
}

fn build_spec(args: &cli::CreateNamespaceArgs) -> NamespaceSpec {
    let geometry = if args.keyed {
        Geometry::Keyed {
            sections: args.sections,
        }
    } else {
        Geometry::Dense {
            section_size: args.section_size,
            max_uid: args.max_uid,
        }
    };
    NamespaceSpec {
        name: args.name.clone(),
        geometry,
        progression: Progression {
            start: args.start,
            stride: args.stride,
            offset: args.offset,
        },
        step: args.step,
        limits: NamespaceLimits {
            step_max: args
                .limits
                .step_max
                .unwrap_or(NamespaceLimits::DEFAULT.step_max.max(args.step)),
            raise_to_max: args
                .limits
                .raise_to_max
                .unwrap_or(NamespaceLimits::DEFAULT.raise_to_max),
            strict: args.strict,
        },
    }
}

fn describe_geometry(geometry: &Geometry) -> String {
    match geometry {
        Geometry::Dense {
            section_size,
            max_uid,
        } => format!("dense, uids below {max_uid}, {section_size} a section"),
        Geometry::Keyed { sections } => format!("keyed, {sections} sections"),
    }
}

fn namespace_line(n: &Namespace) -> String {
    let NamespaceSpec {
        name,
        geometry,
        progression: p,
        step,
        limits,
    } = &n.spec;
    let mut line = format!(
        "{name} (id {}): {}; step {step} to {}",
        n.id,
        describe_geometry(geometry),
        limits.step_max
    );
    if (p.start, p.stride) != (1, 1) {
        line += &format!(
            "; start {}, stride {}, offset {}",
            p.start, p.stride, p.offset
        );
    }
    if limits.strict {
        line += "; strict";
    }
    line
}

fn namespace_json(n: &Namespace) -> Value {
    let NamespaceSpec {
        name,
        geometry,
        progression: p,
        step,
        limits,
    } = &n.spec;
    let geometry = match geometry {
        Geometry::Dense {
            section_size,
            max_uid,
        } => json!({ "kind": "dense", "section_size": section_size, "max_uid": max_uid }),
        Geometry::Keyed { sections } => json!({ "kind": "keyed", "sections": sections }),
    };
    json!({
        "id": n.id.0, "name": name, "geometry": geometry, "start": p.start, "stride": p.stride, "offset": p.offset,
        "step": step, "step_max": limits.step_max, "raise_to_max": limits.raise_to_max,
        "strict": limits.strict,
    })
}
