declare module "subset-font"
