// Where does the page begin?

import { render } from "preact";
import { App } from "./app.tsx";
import "./style.css";

const place = document.getElementById("app");
if (place === null) throw new Error("index.html has no element for the console");
render(<App />, place);
