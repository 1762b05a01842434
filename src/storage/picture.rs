//! A picture of placed rectangles: time to the right, addresses upwards.

use super::rectangles::{Rectangle, Rectangles};

/// Size of the drawing, and what is left free around it.
const WIDTH: f64 = 1200.0;
const HEIGHT: f64 = 800.0;
const MARGIN: f64 = 40.0;

impl Rectangles {
    /// A drawing of every buffer at its offset. The frame is the capacity, the dashed line the bytes
    /// that live at the fullest step.
    pub fn to_svg(&self, capacity: u32, offsets: &[u32]) -> String {
        let start = self.buffers.iter().map(|buffer| buffer.lower).min().unwrap_or(0);
        let end = self.buffers.iter().map(|buffer| buffer.upper).max().unwrap_or(1);
        let across = WIDTH / f64::from(end - start).max(1.0);
        let up = HEIGHT / f64::from(capacity.max(1));
        let (width, height) = (WIDTH + 2.0 * MARGIN, HEIGHT + 2.0 * MARGIN);
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n"
        );
        for (index, (buffer, offset)) in self.buffers.iter().zip(offsets).enumerate() {
            let Rectangle { id, lower, upper, size } = buffer;
            let x = MARGIN + across * f64::from(lower - start);
            let top = f64::from(capacity) - f64::from(*offset) - f64::from(*size);
            // Neighbours in the file differ most by golden angles.
            let hue = index * 137 % 360;
            text.push_str(&format!(
                "<rect x=\"{x:.3}\" y=\"{:.3}\" width=\"{:.3}\" height=\"{:.3}\" \
                 fill=\"hsl({hue},60%,70%)\" stroke=\"#333\" stroke-width=\"0.3\">\
                 <title>{}: steps {lower} to {upper}, bytes {offset} to {}</title></rect>\n",
                MARGIN + up * top,
                across * f64::from(upper - lower),
                up * f64::from(*size),
                escaped(id),
                u64::from(*offset) + u64::from(*size),
            ));
        }
        let bound = MARGIN + up * (f64::from(capacity) - self.bound() as f64);
        text.push_str(&format!(
            "<rect x=\"{MARGIN}\" y=\"{MARGIN}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
             fill=\"none\" stroke=\"#000\"/>\n\
             <path d=\"M {MARGIN} {bound:.3} h {WIDTH}\" stroke=\"#000\" stroke-dasharray=\"6 4\"/>\n\
             <text x=\"{MARGIN}\" y=\"{}\">{capacity} bytes, at most {} live</text>\n\
             <text x=\"{MARGIN}\" y=\"{}\">steps {start} to {end}</text>\n</svg>\n",
            MARGIN - 12.0,
            self.bound(),
            HEIGHT + MARGIN + 20.0,
        ));
        text
    }
}

/// Text that cannot be taken for markup; what XML has no place for is left out.
fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace(|character: char| character.is_control(), "")
}
