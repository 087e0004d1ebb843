// Without the fonts of the default theme: the reader's own load nothing.
import theme from "vitepress/theme-without-fonts";
import "./style.css";

export default theme;
