// How are 100,000 points drawn, moved and clicked at?
//
// WebGL draws a disc for each point from two buffers, positions and colours; moving the view changes two numbers. The point under the pointer is
// found by a scan, which for 100,000 points takes less than a frame.

const vertexShader = `
attribute vec2 position;
attribute vec3 color;
uniform vec2 center;
uniform vec2 scale;
uniform float size;
varying vec3 shade;
void main() {
  gl_Position = vec4((position - center) * scale, 0.0, 1.0);
  gl_PointSize = size;
  shade = color;
}`;
const fragmentShader = `
precision mediump float;
varying vec3 shade;
void main() {
  float distance = length(gl_PointCoord - 0.5);
  if (distance > 0.5) discard;
  float alpha = 0.85 * (1.0 - smoothstep(0.38, 0.5, distance));
  gl_FragColor = vec4(shade * alpha, alpha);
}`;

/** A point that is clicked may be so many pixels away. */
const pickPixels = 14;
/** Share of the points that the first view leaves out at each side. */
const outliers = 0.004;

export class Plot {
  readonly #canvas: HTMLCanvasElement;
  readonly #gl: WebGLRenderingContext;
  readonly #positions: WebGLBuffer;
  readonly #colors: WebGLBuffer;
  readonly #uniforms: Record<"center" | "scale" | "size", WebGLUniformLocation | null>;
  #points = new Float32Array(0);
  #colorCount = 0;
  #center: [number, number] = [0, 0];
  /** CSS pixels for one unit of the points. */
  #pixels = 1;
  #frame = 0;
  /** All points are shown until the user moves the view. */
  #follows = true;
  /** Called after each drawing. */
  onDrawn: () => void = () => undefined;

  /** @throws Error if the browser has no WebGL */
  constructor(canvas: HTMLCanvasElement) {
    this.#canvas = canvas;
    const gl = canvas.getContext("webgl", { antialias: true, premultipliedAlpha: true });
    if (gl === null) throw new Error("This browser has no WebGL, which the map is drawn with.");
    this.#gl = gl;
    const program = gl.createProgram();
    for (const [type, source] of [
      [gl.VERTEX_SHADER, vertexShader],
      [gl.FRAGMENT_SHADER, fragmentShader],
    ] as const) {
      const shader = gl.createShader(type) as WebGLShader;
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS) && !gl.isContextLost())
      throw new Error(`The map cannot be drawn here: ${gl.getProgramInfoLog(program)}`);
    gl.useProgram(program);
    this.#positions = this.#attribute(gl.getAttribLocation(program, "position"), 2, gl.FLOAT, false);
    this.#colors = this.#attribute(gl.getAttribLocation(program, "color"), 3, gl.UNSIGNED_BYTE, true);
    const at = (name: string) => gl.getUniformLocation(program, name);
    this.#uniforms = { center: at("center"), scale: at("scale"), size: at("size") };
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  }

  #attribute(location: number, size: number, type: number, isNormalized: boolean): WebGLBuffer {
    const gl = this.#gl;
    const buffer = gl.createBuffer();
    gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
    gl.enableVertexAttribArray(location);
    gl.vertexAttribPointer(location, size, type, isNormalized, 0, 0);
    return buffer;
  }

  /** @param points x and y in turn; kept, not copied */
  setPoints(points: Float32Array<ArrayBuffer>): void {
    this.#points = points;
    const gl = this.#gl;
    gl.bindBuffer(gl.ARRAY_BUFFER, this.#positions);
    gl.bufferData(gl.ARRAY_BUFFER, points, gl.DYNAMIC_DRAW);
    if (this.#follows) this.fit();
    else this.draw();
  }

  /** From now on the view shows all points, until it is moved. */
  follow(): void {
    this.#follows = true;
  }

  /** @param colors three bytes for each point */
  setColors(colors: Uint8Array): void {
    const gl = this.#gl;
    gl.bindBuffer(gl.ARRAY_BUFFER, this.#colors);
    gl.bufferData(gl.ARRAY_BUFFER, colors, gl.STATIC_DRAW);
    this.#colorCount = colors.length / 3;
    this.draw();
  }

  /** Shows all points but the outermost. */
  fit(): void {
    const extent = (offset: 0 | 1): [number, number] => {
      const sorted = Float32Array.from(
        { length: this.#points.length / 2 },
        (_, i) => this.#points[2 * i + offset],
      ).sort();
      const cut = Math.floor(outliers * sorted.length);
      return [sorted[cut] ?? 0, sorted[sorted.length - 1 - cut] ?? 1];
    };
    const [left, right] = extent(0);
    const [low, high] = extent(1);
    const { clientWidth, clientHeight } = this.#canvas;
    this.#center = [(left + right) / 2, (low + high) / 2];
    const size = (least: number, most: number) => (most > least ? most - least : 1);
    this.#pixels = 0.9 * Math.min(clientWidth / size(left, right), clientHeight / size(low, high));
    this.draw();
  }

  /** Moves the view by CSS pixels. */
  move(x: number, y: number): void {
    this.#follows = false;
    this.#center = [this.#center[0] - x / this.#pixels, this.#center[1] + y / this.#pixels];
    this.draw();
  }

  /** @param x, y what stays in place, in CSS pixels of the canvas; default: the centre */
  zoom(factor: number, x = this.#canvas.clientWidth / 2, y = this.#canvas.clientHeight / 2): void {
    this.#follows = false;
    const before = this.#unproject(x, y);
    this.#pixels *= factor;
    const after = this.#unproject(x, y);
    this.#center = [this.#center[0] + before[0] - after[0], this.#center[1] + before[1] - after[1]];
    this.draw();
  }

  #unproject(x: number, y: number): [number, number] {
    const { clientWidth, clientHeight } = this.#canvas;
    return [
      this.#center[0] + (x - clientWidth / 2) / this.#pixels,
      this.#center[1] - (y - clientHeight / 2) / this.#pixels,
    ];
  }

  /** Where a point is, in CSS pixels of the canvas. */
  placeOf(i: number): [number, number] {
    const { clientWidth, clientHeight } = this.#canvas;
    return [
      clientWidth / 2 + (this.#points[2 * i] - this.#center[0]) * this.#pixels,
      clientHeight / 2 - (this.#points[2 * i + 1] - this.#center[1]) * this.#pixels,
    ];
  }

  /** The point nearest to a place, in CSS pixels of the canvas; undefined if there is none near it. */
  pick(x: number, y: number): number | undefined {
    const [wantedX, wantedY] = this.#unproject(x, y);
    let least = (pickPixels / this.#pixels) ** 2;
    let found: number | undefined;
    const points = this.#points;
    for (let i = 0; i < points.length; i += 2) {
      const distance = (points[i] - wantedX) ** 2 + (points[i + 1] - wantedY) ** 2;
      if (distance > least) continue;
      least = distance;
      found = i / 2;
    }
    return found;
  }

  /** Draws with the next frame. */
  draw(): void {
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => {
      this.#drawNow();
      this.onDrawn();
    });
  }

  #drawNow(): void {
    const gl = this.#gl;
    const canvas = this.#canvas;
    const ratio = devicePixelRatio;
    const [width, height] = [Math.round(canvas.clientWidth * ratio), Math.round(canvas.clientHeight * ratio)];
    if (canvas.width !== width || canvas.height !== height) {
      canvas.width = width;
      canvas.height = height;
    }
    gl.viewport(0, 0, width, height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    const count = Math.min(this.#points.length / 2, this.#colorCount);
    if (count === 0) return;
    gl.uniform2f(this.#uniforms.center, ...this.#center);
    gl.uniform2f(
      this.#uniforms.scale,
      (2 * this.#pixels) / canvas.clientWidth,
      (2 * this.#pixels) / canvas.clientHeight,
    );
    // Fewer points are larger.
    gl.uniform1f(this.#uniforms.size, ratio * Math.max(3, Math.min(9, 220 / Math.sqrt(count))));
    gl.drawArrays(gl.POINTS, 0, count);
  }

  close(): void {
    cancelAnimationFrame(this.#frame);
    this.#gl.getExtension("WEBGL_lose_context")?.loseContext();
  }
}
