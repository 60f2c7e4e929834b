// A sheet of styles is imported for its effect; the build puts it beside the script.
declare module "*.css" {}
