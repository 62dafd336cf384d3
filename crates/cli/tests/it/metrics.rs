//! The metrics that are served are those that the documentation lists, and those that the dashboard shows.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use crate::markdown::root;
use crate::processes::serve;
use crate::{handback, run};

/// The labels of each metric that a server has after a turn with a call, and an error.
fn served() -> BTreeMap<String, BTreeSet<String>> {
    let (_server, url) = serve("127.0.0.1:0");
    let chat = handback(&["chat", "--url", &url, "--attach", "weekday=date +%A", "which weekday is it?"]);
    assert_eq!(chat.code, Some(0), "{chat:?}");
    let curl = |path: &str| {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--max-time", "20", &format!("{url}{path}")]);
        run(curl).stdout
    };
    assert!(curl("/nowhere").contains("NOT_FOUND"));
    let text = curl("/metrics");
    let mut served = BTreeMap::new();
    for family in text.split("# HELP ").skip(1) {
        let (name, rest) = family.split_once(' ').unwrap();
        let (_, rest) = rest.split_once(&format!("# TYPE {name} ")).unwrap();
        let mut lines = rest.lines();
        let name = match lines.next().unwrap() {
            "counter" => format!("{name}_total"),
            "info" => format!("{name}_info"),
            "gauge" | "histogram" => name.to_owned(),
            other => panic!("{name} is a {other}"),
        };
        let samples = lines.filter(|line| !line.starts_with('#'));
        let labels = samples.filter_map(|line| line.split_once('{')?.1.split_once('}')).flat_map(|(labels, _)| {
            labels.split(',').map(|label| label.split_once('=').unwrap().0.to_owned()).collect::<Vec<_>>()
        });
        let labels: BTreeSet<_> = labels.filter(|label| label != "le").collect();
        assert!(served.insert(name, labels).is_none());
    }
    served
}

fn read(page: &str) -> String {
    std::fs::read_to_string(root().join(page)).unwrap()
}

/// The words of a text that could be metrics.
fn named(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("handback_") || word.starts_with("process_"))
}

#[test]
fn the_metrics_are_those_of_the_page_and_of_the_dashboard() {
    let served = served();
    let page = read("docs/operating.md");
    let rows = page.lines().filter_map(|line| {
        let mut cells = line.strip_prefix('|')?.split('|').map(|cell| cell.trim().replace('`', ""));
        let (name, labels) = (cells.next()?, cells.next()?);
        named(&name).next()?;
        let labels = labels.split(", ").filter(|label| !label.is_empty()).map(str::to_owned);
        Some((name.clone(), labels.collect::<BTreeSet<_>>()))
    });
    assert_eq!(rows.collect::<BTreeMap<_, _>>(), served);

    let dashboard: Value = serde_json::from_str(&read("docs/grafana.json")).unwrap();
    let mut shown = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let (query, legend) = (target["expr"].as_str().unwrap(), target["legendFormat"].as_str().unwrap());
            let names: Vec<&str> = named(query).map(|name| name.strip_suffix("_bucket").unwrap_or(name)).collect();
            for name in &names {
                let labels = served.get(*name).unwrap_or_else(|| panic!("{query} wants {name}, which is not served"));
                // Prometheus adds two.
                let is_label = |label: &str| labels.contains(label) || ["instance", "job"].contains(&label);
                for label in legend.split("{{").skip(1).map(|label| label.split_once("}}").unwrap().0) {
                    assert!(is_label(label), "{name} has no label {label}");
                }
            }
            assert!(!names.is_empty(), "{query}");
            shown.extend(names.into_iter().map(str::to_owned));
        }
    }
    assert_eq!(shown, served.into_keys().collect());
}
