// A picture with at most 256 colours: a third of the bytes, and no difference that one sees on a page.
import { deflateSync } from "node:zlib";

const COLORS = 256;

/** @param {import("playwright-core").Page} page decodes the picture @param {Buffer} png */
export async function small(page, png) {
  const { width, height, pixels } = await page.evaluate(async (address) => {
    const picture = new Image();
    picture.src = address;
    await picture.decode();
    const canvas = Object.assign(document.createElement("canvas"), { width: picture.width, height: picture.height });
    const context = canvas.getContext("2d", { willReadFrequently: true });
    context.drawImage(picture, 0, 0);
    const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
    let text = "";
    for (let i = 0; i < data.length; i += 32768) text += String.fromCharCode(...data.subarray(i, i + 32768));
    return { width: canvas.width, height: canvas.height, pixels: btoa(text) };
  }, `data:image/png;base64,${png.toString("base64")}`);
  const data = Buffer.from(pixels, "base64");
  const counts = new Map();
  for (let i = 0; i < data.length; i += 4) {
    const color = (data[i] << 16) | (data[i + 1] << 8) | data[i + 2];
    counts.set(color, (counts.get(color) ?? 0) + 1);
  }
  const palette = [...counts].sort((a, b) => b[1] - a[1]).slice(0, COLORS).map(([color]) => color);
  const nearest = new Map();
  const indexOf = (color) => {
    let found = nearest.get(color);
    if (found === undefined) {
      let least = Infinity;
      palette.forEach((one, i) => {
        const [r, g, b] = [16, 8, 0].map((shift) => ((one >> shift) & 255) - ((color >> shift) & 255));
        const distance = 2 * r * r + 4 * g * g + b * b;
        if (distance < least) [least, found] = [distance, i];
      });
      nearest.set(color, found);
    }
    return found;
  };
  const rows = Buffer.alloc(height * (width + 1));
  for (let y = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1) {
      const i = 4 * (y * width + x);
      rows[y * (width + 1) + 1 + x] = indexOf((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
    }
  }
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 3, 0, 0, 0], 8);
  const colors = Buffer.from(palette.flatMap((color) => [color >> 16, (color >> 8) & 255, color & 255]));
  const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
  return Buffer.concat([signature, chunk("IHDR", head), chunk("PLTE", colors), chunk("IDAT", deflateSync(rows, { level: 9 })), chunk("IEND", Buffer.alloc(0))]);
}

/** @param {string} kind @param {Buffer} body */
function chunk(kind, body) {
  const named = Buffer.concat([Buffer.from(kind, "latin1"), body]);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(body.length);
  const sum = Buffer.alloc(4);
  sum.writeUInt32BE(crc(named));
  return Buffer.concat([length, named, sum]);
}

/** The check sum of PNG. @param {Buffer} bytes */
function crc(bytes) {
  let sum = 0xffffffff;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit += 1) sum = (sum >>> 1) ^ (sum & 1 ? 0xedb88320 : 0);
  }
  return (sum ^ 0xffffffff) >>> 0;
}
