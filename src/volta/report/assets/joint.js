startTheme();
startTables();
document.documentElement.dataset.ready = "yes";
