//! Plots as SVG: two axes with ticks and units, and what is drawn between them.

use super::html::Markup;
use crate::report::cycles;

/// Size of a plot, and what is left free around it for ticks and names.
const WIDTH: f64 = 1080.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 52.0;

/// Ticks of an axis, about.
const TICKS: f64 = 6.0;

/// An axis: what it shows, in which unit, and from where to where.
pub(super) struct Axis {
    name: String,
    from: f64,
    to: f64,
    tick: f64,
}

/// What the colours mean.
pub(super) struct Key {
    /// Its colour.
    pub(super) colour: &'static str,
    /// What it is.
    pub(super) name: String,
}

/// A plot.
pub(super) struct Plot {
    /// To the right.
    pub(super) x: Axis,
    /// Upwards.
    pub(super) y: Axis,
    /// What is drawn, in this order.
    pub(super) marks: Vec<Markup>,
    /// What the colours mean.
    pub(super) keys: Vec<Key>,
}

/// Bars on top of each other: a colour, what it is, and a value for every bar.
pub(super) struct Layer {
    /// What it is.
    pub(super) key: Key,
    /// By bar.
    pub(super) values: Vec<f64>,
}

impl Axis {
    /// An axis from one whole tick to another around these values.
    pub(super) fn around(name: impl Into<String>, least: f64, most: f64) -> Axis {
        let tick = tick((most - least).max(1.0));
        let (from, to) = ((least / tick).floor() * tick, (most / tick).ceil() * tick);
        Axis { name: name.into(), from, to: if to > from { to } else { from + tick }, tick }
    }

    /// An axis over exactly these values.
    pub(super) fn exactly(name: impl Into<String>, from: f64, to: f64) -> Axis {
        Axis { name: name.into(), from, to, tick: tick((to - from).max(1.0)) }
    }

    /// Where ticks are.
    fn ticks(&self) -> impl Iterator<Item = f64> {
        let (tick, to) = (self.tick, self.to);
        let first = (self.from / tick).ceil() * tick;
        (0..).map(move |index| first + f64::from(index) * tick).take_while(move |at| *at <= to)
    }

    /// How far along a value lies, from 0 to 1.
    fn share(&self, value: f64) -> f64 {
        (value - self.from) / (self.to - self.from)
    }
}

/// The distance of ticks over so long an axis: 1, 2 or 5 times a power of ten, at least 1.
fn tick(length: f64) -> f64 {
    let rough = (length / TICKS).max(1.0);
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0].into_iter().find(|step| step * power >= rough);
    step.unwrap_or(10.0) * power
}

impl Plot {
    /// Where a value of the axis to the right is drawn.
    pub(super) fn across(&self, value: f64) -> f64 {
        LEFT + self.x.share(value) * (WIDTH - LEFT - RIGHT)
    }

    /// Where a value of the axis upwards is drawn.
    pub(super) fn down(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - self.y.share(value) * (HEIGHT - TOP - BOTTOM)
    }

    /// Bars for 0, 1, … on top of each other, one path a layer.
    pub(super) fn stack(&mut self, layers: Vec<Layer>) {
        let mut below = vec![0.0_f64; layers.iter().map(|l| l.values.len()).max().unwrap_or(0)];
        for Layer { key, values } in layers {
            let mut path = String::new();
            for (bar, (value, below)) in values.iter().zip(&mut below).enumerate() {
                if *value > 0.0 {
                    let (left, right) = (self.across(bar as f64), self.across(bar as f64 + 1.0));
                    let (bottom, top) = (self.down(*below), self.down(*below + value));
                    path.push_str(&format!(
                        "M{left:.2} {bottom:.2}H{right:.2}V{top:.2}H{left:.2}Z"
                    ));
                }
                *below += value;
            }
            self.marks.push(filled(path, key.colour));
            self.keys.push(key);
        }
    }

    /// The drawing.
    pub(super) fn draw(self) -> Markup {
        let attributes = [
            ("xmlns", "http://www.w3.org/2000/svg".to_owned()),
            ("viewBox", format!("0 0 {WIDTH} {HEIGHT}")),
            ("font-family", "sans-serif".to_owned()),
            ("font-size", "12".to_owned()),
        ];
        let parts = [self.grid(), self.names(), self.legend()];
        let (x, y) = (format!("{LEFT}"), format!("{TOP}"));
        let size = [WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM].map(|size| size.to_string());
        let [width, height] = size;
        let frame = [
            ("x", x),
            ("y", y),
            ("width", width),
            ("height", height),
            ("fill", "none".to_owned()),
            ("stroke", "#555".to_owned()),
        ];
        let frame = Markup::element("rect", &frame, Markup::default());
        let content = parts.into_iter().chain(self.marks).chain([frame]).collect();
        Markup::element("svg", &attributes, content)
    }

    /// Lines and numbers at the ticks.
    fn grid(&self) -> Markup {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        let across = self.x.ticks().map(|value| {
            let at = self.across(value);
            let number = label(at, bottom + 18.0, "middle", &number(value));
            [thin(at, bottom, at, bottom + 5.0), number].into_iter().collect()
        });
        let up = self.y.ticks().map(|value| {
            let at = self.down(value);
            let number = label(LEFT - 8.0, at + 4.0, "end", &number(value));
            [thin(LEFT, at, right, at), number].into_iter().collect()
        });
        across.chain(up).collect()
    }

    /// Names of the axes.
    fn names(&self) -> Markup {
        let middle = (LEFT + WIDTH - RIGHT) / 2.0;
        let below = label(middle, HEIGHT - 10.0, "middle", &self.x.name);
        let (x, y) = (20.0, (TOP + HEIGHT - BOTTOM) / 2.0);
        let attributes = [
            ("transform", format!("translate({x} {y}) rotate(-90)")),
            ("text-anchor", "middle".to_owned()),
        ];
        let beside = Markup::element("text", &attributes, Markup::text(&self.y.name));
        [below, beside].into_iter().collect()
    }

    /// What the colours mean, above the plot.
    fn legend(&self) -> Markup {
        let mut at = LEFT;
        let mut parts = vec![];
        for Key { colour, name } in &self.keys {
            let attributes = [
                ("x", format!("{at:.0}")),
                ("y", "10".to_owned()),
                ("width", "14".to_owned()),
                ("height", "14".to_owned()),
                ("fill", (*colour).to_owned()),
            ];
            parts.push(Markup::element("rect", &attributes, Markup::default()));
            parts.push(label(at + 20.0, 21.0, "start", name));
            // About what sans-serif letters of this size take.
            at += 44.0 + 6.5 * name.chars().count() as f64;
        }
        parts.into_iter().collect()
    }
}

fn number(value: f64) -> String {
    cycles(value.max(0.0).round() as u64)
}

/// Words at a place.
pub(super) fn label(x: f64, y: f64, anchor: &'static str, text: &str) -> Markup {
    let attributes =
        [("x", format!("{x:.2}")), ("y", format!("{y:.2}")), ("text-anchor", anchor.to_owned())];
    Markup::element("text", &attributes, Markup::text(text))
}

fn thin(x: f64, y: f64, to_x: f64, to_y: f64) -> Markup {
    let path = format!("M{x:.2} {y:.2}L{to_x:.2} {to_y:.2}");
    line(path, "#ddd", "1", "none")
}

/// A filled circle at a place.
pub(super) fn dot(x: f64, y: f64, colour: &'static str) -> Markup {
    let attributes = [
        ("cx", format!("{x:.2}")),
        ("cy", format!("{y:.2}")),
        ("r", "3".to_owned()),
        ("fill", colour.to_owned()),
    ];
    Markup::element("circle", &attributes, Markup::default())
}

/// A line along a path.
pub(super) fn line(
    path: String,
    colour: &'static str,
    width: &'static str,
    dashes: &'static str,
) -> Markup {
    let attributes = [
        ("d", path),
        ("fill", "none".to_owned()),
        ("stroke", colour.to_owned()),
        ("stroke-width", width.to_owned()),
        ("stroke-dasharray", dashes.to_owned()),
    ];
    Markup::element("path", &attributes, Markup::default())
}

fn filled(path: String, colour: &'static str) -> Markup {
    let attributes = [("d", path), ("fill", colour.to_owned())];
    Markup::element("path", &attributes, Markup::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        for (length, wanted) in [
            (1.0, 1.0),
            (6.0, 1.0),
            (7.0, 2.0),
            (40.0, 10.0),
            (3_000.0, 500.0),
            (638_976.0, 200_000.0),
        ] {
            assert!((tick(length) - wanted).abs() < 1e-9, "{length}: {}", tick(length));
            assert!((2..9).contains(&Axis::exactly("", 0.0, length).ticks().count()), "{length}");
        }
    }

    #[test]
    fn an_axis_around_values_begins_and_ends_at_ticks() {
        let axis = Axis::around("", 79_896.0, 96_639.0);
        assert_eq!([axis.from, axis.to].map(number), ["75,000", "100,000"]);
        let one = Axis::around("", 500.0, 500.0);
        assert!(one.to > one.from && one.share(500.0) >= 0.0);
    }

    #[test]
    fn every_bar_stands_on_the_one_below() {
        let axes = || (Axis::exactly("", 0.0, 2.0), Axis::exactly("", 0.0, 10.0));
        let (x, y) = axes();
        let mut plot = Plot { x, y, marks: vec![], keys: vec![] };
        let layer = |colour, values: [f64; 2]| Layer {
            key: Key { colour, name: String::new() },
            values: values.to_vec(),
        };
        plot.stack(vec![layer("#111", [1.0, 2.0]), layer("#222", [3.0, 0.0])]);
        let (bottom, top) = (plot.down(1.0), plot.down(4.0));
        let drawn = plot.draw().into_string();
        let second =
            drawn.lines().find(|line| line.contains("fill=\"#222\"") && line.contains("<path"));
        let second = second.unwrap();
        assert_eq!(second.matches('Z').count(), 1, "a bar of nothing is not drawn");
        assert!(second.contains(&format!(" {bottom:.2}H")), "{second}");
        assert!(second.contains(&format!("V{top:.2}")), "{second}");
    }
}
