//! Drawing: just enough SVG for the charts of a report. Colours and fonts come from the page's
//! style by class, so that a chart follows the light or the dark scheme.

use std::fmt::Write;

use crate::text::escape;

/// Where a text is held.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A drawing under construction.
pub(super) struct Svg {
    out: String,
}

impl Svg {
    /// `label` is what a screen reader says in place of the picture.
    pub(super) fn new(width: f64, height: f64, label: &str) -> Self {
        let (width, height, label) = (number(width), number(height), escape(label));
        Self {
            out: format!(
                "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{label}\">\n"
            ),
        }
    }

    pub(super) fn finish(mut self) -> String {
        self.out.push_str("</svg>\n");
        self.out
    }

    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let (x1, y1, x2, y2) = (number(from.0), number(from.1), number(to.0), number(to.1));
        self.push(format_args!(
            "<line class=\"{class}\" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"/>"
        ));
    }

    /// A rectangle; `title` shows when the pointer rests on it.
    pub(super) fn rect(&mut self, class: &str, at: (f64, f64), size: (f64, f64), title: &str) {
        let (x, y, w, h) = (number(at.0), number(at.1), number(size.0), number(size.1));
        let title = escape(title);
        self.push(format_args!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\"><title>{title}</title></rect>"
        ));
    }

    /// A ring round one point; `title` shows when the pointer rests on it.
    pub(super) fn ring(&mut self, class: &str, at: (f64, f64), title: &str) {
        let (x, y, title) = (number(at.0), number(at.1), escape(title));
        self.push(format_args!(
            "<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"4.5\"><title>{title}</title></circle>"
        ));
    }

    /// A line through the points.
    pub(super) fn curve(&mut self, class: &str, points: &[(f64, f64)], title: &str) {
        let mut d = String::new();
        for (i, (x, y)) in points.iter().enumerate() {
            let step = if i == 0 { 'M' } else { 'L' };
            let _ = write!(d, "{step}{} {}", number(*x), number(*y));
        }
        let title = escape(title);
        self.push(format_args!(
            "<path class=\"{class}\" d=\"{d}\"><title>{title}</title></path>"
        ));
    }

    /// Many dots as one path: each is a line of no length, whose caps the style draws.
    pub(super) fn dots(&mut self, class: &str, points: &[(f64, f64)]) {
        let mut d = String::with_capacity(points.len() * 14);
        for (x, y) in points {
            let _ = write!(d, "M{} {}h0", number(*x), number(*y));
        }
        self.push(format_args!("<path class=\"{class}\" d=\"{d}\"/>"));
    }

    /// Many triangles as one path.
    pub(super) fn triangles(&mut self, class: &str, points: &[(f64, f64)]) {
        let mut d = String::with_capacity(points.len() * 22);
        for (x, y) in points {
            let _ = write!(d, "M{} {}l-4.5 8h9z", number(*x), number(*y - 5.0));
        }
        self.push(format_args!("<path class=\"{class}\" d=\"{d}\"/>"));
    }

    /// A text that reads upwards, in the middle of what it names.
    pub(super) fn upright(&mut self, class: &str, at: (f64, f64), words: &str) {
        let (x, y, words) = (number(at.0), number(at.1), escape(words));
        self.push(format_args!(
            "<text class=\"{class}\" transform=\"translate({x} {y}) rotate(-90)\" text-anchor=\"middle\">{words}</text>"
        ));
    }

    pub(super) fn text(&mut self, class: &str, at: (f64, f64), anchor: Anchor, words: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let (x, y, words) = (number(at.0), number(at.1), escape(words));
        self.push(format_args!(
            "<text class=\"{class}\" x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{words}</text>"
        ));
    }

    fn push(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.out.write_fmt(element);
        self.out.push('\n');
    }
}

/// A coordinate to a tenth of a unit, which is below a pixel on any screen.
fn number(value: f64) -> String {
    let tenths = (value * 10.0).round() / 10.0;
    if tenths.is_finite() {
        format!("{tenths}")
    } else {
        "0".into()
    }
}
