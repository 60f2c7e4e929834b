// How does the site look? The generator's own theme with the colours of the console.

import Theme from "vitepress/theme-without-fonts";
import "./style.css";

export default Theme;
