//! The drawing: rate and p99 over the number of connected clients, as SVG that is readable in light and dark.

use crate::figures::{Comparison, Medians};
use crate::numbers::thousands;
use crate::scenario::{CROWD, Peer, SIZES, Scenario, Store};

const WIDTH: f64 = 880.0;
const HEIGHT: f64 = 360.0;
/// The frame of a panel's plot: its top, its height, its width.
const TOP: f64 = 84.0;
const TALL: f64 = 200.0;
const WIDE: f64 = 340.0;
/// The number of clients at the right end of the axis, as a power of ten.
const DECADES: f64 = 3.75;

/// The servers that are drawn, and the classes of their colours.
const SERVERS: [(Peer, &str); 3] =
    [(Peer::Handback(Store::Memory), "handback"), (Peer::Handback(Store::Sqlite), "sqlite"), (Peer::Floor, "floor")];

const STYLE: &str = "\
    text { font: 13px system-ui, sans-serif; fill: #333c4a }
    .title { font-weight: 600 }
    .paper { fill: #ffffff }
    .grid { stroke: #dfe3ea }
    .axis { stroke: #8a93a3 }
    .handback { stroke: #2563eb; fill: #2563eb }
    .sqlite { stroke: #0d8a5f; fill: #0d8a5f }
    .floor { stroke: #c2620a; fill: #c2620a }
    .line { stroke-width: 2.5 }
    .apart { stroke-width: 1.5; stroke-dasharray: 5 4 }
    .hollow { stroke-width: 2.5 }
    .line.line, .apart.apart { fill: none }
    .hollow.hollow { fill: #ffffff }
    @media (prefers-color-scheme: dark) {
      text { fill: #d5dbe6 }
      .paper { fill: #12161d }
      .grid { stroke: #2b323e }
      .axis { stroke: #6b7585 }
      .handback { stroke: #6ea0ff; fill: #6ea0ff }
      .sqlite { stroke: #4fd1a1; fill: #4fd1a1 }
      .floor { stroke: #f0a04b; fill: #f0a04b }
      .hollow.hollow { fill: #12161d }
    }
";

/// A panel: one figure over the number of clients.
struct Panel {
    left: f64,
    title: &'static str,
    figure: fn(&Medians) -> f64,
    /// How a value of the axis is written.
    label: fn(f64) -> String,
}

/// Draws the comparison.
pub(crate) fn draw(comparison: &Comparison) -> anyhow::Result<String> {
    let panels = [
        Panel { left: 70.0, title: "Calls per second", figure: |medians| medians.rate, label: thousands },
        Panel {
            left: 510.0,
            title: "p99 latency, ms",
            figure: |medians| medians.p99,
            label: |value| ((value * 100.0).round() / 100.0).to_string(),
        },
    ];
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"Calls per second and p99 latency of Handback and of the floor over the number of connected clients\">\n\
         <style>\n{STYLE}</style>\n<rect class=\"paper\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"8\"/>\n{}",
        legend()
    );
    for panel in panels {
        svg.push_str(&panel.draw(comparison)?);
    }
    svg.push_str("</svg>\n");
    Ok(svg)
}

fn legend() -> String {
    let mut svg = String::new();
    for ((peer, class), left) in SERVERS.into_iter().zip([70.0, 190.0, 362.0]) {
        svg.push_str(&format!(
            "<path class=\"{class} line\" d=\"M{left} 28h26\"/><circle class=\"{class}\" cx=\"{}\" cy=\"28\" r=\"4\"/>\
             <text x=\"{}\" y=\"32\">{}</text>\n",
            left + 13.0,
            left + 34.0,
            peer.name(),
        ));
    }
    svg.push_str("<text x=\"460\" y=\"32\">filled: all clients are called; hollow: one of them</text>\n");
    svg
}

impl Panel {
    fn draw(&self, comparison: &Comparison) -> anyhow::Result<String> {
        let mut points = Vec::new();
        for (peer, class) in SERVERS.into_iter().rev() {
            let figure = |scenario| -> anyhow::Result<f64> { Ok((self.figure)(&comparison.medians(peer, scenario)?)) };
            let busy = SIZES
                .iter()
                .map(|&size| Ok((size, figure(Scenario::Busy(size))?)))
                .collect::<anyhow::Result<Vec<_>>>()?;
            points.push((peer, class, busy, figure(Scenario::OneOfMany)?));
        }
        let largest = points
            .iter()
            .flat_map(|(_, _, busy, apart)| busy.iter().map(|point| point.1).chain([*apart]))
            .fold(0.0, f64::max);
        let step = step(largest);
        let top = (largest / step).ceil() * step;
        let mut svg = self.axes(step, top);
        for (peer, class, busy, apart) in points {
            svg.push_str(&self.series((peer, class), &busy, apart, top));
        }
        Ok(svg)
    }

    /// The grid, the labels of both axes and the title.
    fn axes(&self, step: f64, top: f64) -> String {
        let (left, right, bottom) = (self.left, self.left + WIDE, TOP + TALL);
        let mut svg = format!("<text class=\"title\" x=\"{left}\" y=\"{}\">{}</text>\n", TOP - 16.0, self.title);
        for line in 0..=(top / step).round() as u32 {
            let value = f64::from(line) * step;
            let (y, label) = (TOP + TALL * (1.0 - value / top), (self.label)(value));
            svg.push_str(&format!(
                "<path class=\"grid\" d=\"M{left} {y:.1}H{right}\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>\n",
                left - 8.0,
                y + 4.5,
            ));
        }
        for clients in [1, 10, 100, 1_000, CROWD] {
            let x = self.x(clients);
            svg.push_str(&format!(
                "<path class=\"axis\" d=\"M{x:.1} {bottom}v5\"/>\
                 <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                bottom + 21.0,
                thousands(f64::from(clients)),
            ));
        }
        svg.push_str(&format!(
            "<path class=\"axis\" d=\"M{left} {bottom}H{right}\"/>\
             <text x=\"{}\" y=\"{}\" text-anchor=\"middle\">connected clients</text>\n",
            left + WIDE / 2.0,
            bottom + 46.0,
        ));
        svg
    }

    /// One server: a line through the scenarios in which all are called, and a point apart where one of many is.
    fn series(&self, (peer, class): (Peer, &str), busy: &[(u32, f64)], apart: f64, top: f64) -> String {
        let place = |clients, value: f64| (self.x(clients), TOP + TALL * (1.0 - value / top));
        let mut path = String::new();
        let mut marks = String::new();
        let mut title = |clients: u32, value, class: &str| {
            let (x, y) = place(clients, value);
            marks.push_str(&format!(
                "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"><title>{}, {}: {}</title></circle>\n",
                peer.name(),
                thousands(f64::from(clients)),
                (self.label)(value),
            ));
        };
        for &(clients, value) in busy {
            let (x, y) = place(clients, value);
            path.push_str(&format!("{}{x:.1} {y:.1}", if path.is_empty() { "M" } else { "L" }));
            title(clients, value, class);
        }
        title(CROWD, apart, &format!("{class} hollow"));
        let dashes = busy.first().map(|&(clients, value)| {
            let ((x0, y0), (x1, y1)) = (place(clients, value), place(CROWD, apart));
            format!("<path class=\"{class} apart\" d=\"M{x0:.1} {y0:.1}L{x1:.1} {y1:.1}\"/>\n")
        });
        format!("{}<path class=\"{class} line\" d=\"{path}\"/>\n{marks}", dashes.unwrap_or_default())
    }

    /// Where so many clients are on the logarithmic axis.
    fn x(&self, clients: u32) -> f64 {
        self.left + 14.0 + (WIDE - 28.0) * f64::from(clients).log10() / DECADES
    }
}

/// The distance of the grid's lines: 1, 2 or 5 times a power of ten, and no more than six lines.
pub(crate) fn step(largest: f64) -> f64 {
    let rough = (largest / 5.0).max(f64::MIN_POSITIVE);
    let power = 10_f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= rough).unwrap_or(10.0);
    factor * power
}
